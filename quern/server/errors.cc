#include "quern/server/errors.h"

namespace quern::server {

ApiError BadField(std::string param, std::string message, std::string code) {
  ApiError error;
  error.param = std::move(param);
  error.message = std::move(message);
  error.code = std::move(code);
  return error;
}

ApiError ModelNotFound(const std::string& name, const std::string& served) {
  ApiError error;
  error.http_status = 404;
  error.message = fmt::format("model '{}' is not served here; this server has {}", name, served);
  error.param = "model";
  error.code = "model_not_found";
  return error;
}

ApiError ContextTooLong(int64_t prompt_len, int64_t max_tokens, int64_t max_model_len,
                        const std::string& param) {
  if (max_tokens == 0) {
    return BadField(
        param,
        fmt::format("the prompt has {} tokens and leaves no room for an answer within the limit of "
                    "{}; shorten it",
                    prompt_len, max_model_len),
        "context_length_exceeded");
  }
  return BadField(
      param,
      fmt::format("prompt {} + max_tokens {} = {} tokens, over the limit of {}; shorten either",
                  prompt_len, max_tokens, prompt_len + max_tokens, max_model_len),
      "context_length_exceeded");
}

ApiError FromStatus(const Status& status, std::string param) {
  ApiError error;
  error.message = status.message();
  error.param = std::move(param);
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kFailedPrecondition:
      break;
    case StatusCode::kUnimplemented:
      error.code = "not_implemented";
      break;
    case StatusCode::kNotFound:
      error.http_status = 404;
      error.code = "not_found";
      break;
    case StatusCode::kResourceExhausted:
      error.http_status = 429;
      error.type = "rate_limit_error";
      error.code = "server_busy";
      error.retry_after_s = 1;
      break;
    case StatusCode::kUnavailable:
    case StatusCode::kCancelled:
      error.http_status = 503;
      error.type = "server_error";
      error.code = "unavailable";
      break;
    case StatusCode::kOk:
    case StatusCode::kDataLoss:
    case StatusCode::kInternal:
      error.http_status = 500;
      error.type = "server_error";
      error.code = "internal_error";
      break;
  }
  return error;
}

Json ErrorBody(const ApiError& error) {
  const auto or_null = [](const std::string& s) { return s.empty() ? Json(nullptr) : Json(s); };
  Json body;
  body["error"] = {{"message", error.message},
                   {"type", error.type},
                   {"param", or_null(error.param)},
                   {"code", or_null(error.code)}};
  return body;
}

}  // namespace quern::server
