// Errors as clients see them: an HTTP status and OpenAI's {"error": {message, type, param, code}}.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "quern/base/json.h"
#include "quern/base/status.h"

namespace quern::server {

struct ApiError {
  int http_status = 400;
  std::string type = "invalid_request_error";
  std::string message;
  std::string param;      // the request's field, e.g. "messages[2].content"; empty = null
  std::string code;       // for programs, e.g. "context_length_exceeded"; empty = null
  int retry_after_s = 0;  // > 0: sent as Retry-After
};

// 400 for one field of a request.
ApiError BadField(std::string param, std::string message, std::string code = "");
// The request named a model this server does not serve: 404.
ApiError ModelNotFound(const std::string& name, const std::string& served);
// prompt + max_tokens does not fit: 400, or the prompt alone when `max_tokens` is 0.
ApiError ContextTooLong(int64_t prompt_len, int64_t max_tokens, int64_t max_model_len,
                        const std::string& param);
// kInvalidArgument 400, kNotFound 404, kResourceExhausted 429 with Retry-After, kUnimplemented 400,
// kUnavailable 503, others 500.
ApiError FromStatus(const Status& status, std::string param = "");

// {"error": {...}}
Json ErrorBody(const ApiError& error);

// A value or the error to answer with.
template <typename T>
class ApiResult {
 public:
  ApiResult(T value) : state_(std::move(value)) {}         // NOLINT: implicit by design
  ApiResult(ApiError error) : state_(std::move(error)) {}  // NOLINT
  bool ok() const { return std::holds_alternative<T>(state_); }
  T& value() { return std::get<T>(state_); }
  const T& value() const { return std::get<T>(state_); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  ApiError& error() { return std::get<ApiError>(state_); }
  const ApiError& error() const { return std::get<ApiError>(state_); }

 private:
  std::variant<T, ApiError> state_;
};

}  // namespace quern::server
