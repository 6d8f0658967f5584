#include "quern/server/tokenize.h"

#include "quern/server/render.h"
#include "quern/server/tokenize_request.h"

namespace quern::server {

HttpResponse Tokenize(Services& services, const HttpRequest& http) {
  ApiResult<TokenizeRequest> request = ParseTokenizeRequest(http.body);
  if (!request.ok()) return ErrorResponse(request.error());
  if (auto error = services.CheckModel(request->model)) return ErrorResponse(*error);

  std::string text;
  if (request->text) {
    text = std::move(*request->text);
  } else {
    ApiResult<RenderedPrompt> rendered = RenderChat(services.chat_template, request->chat);
    if (!rendered.ok()) return ErrorResponse(rendered.error());
    text = std::move(rendered->text);
  }
  const char* param = request->text ? "prompt" : "messages";
  ApiResult<std::vector<int32_t>> ids =
      EncodePrompt(services.tokenizer, text, request->add_special_tokens, param);
  if (!ids.ok()) return ErrorResponse(ids.error());

  Json strings = nullptr;
  if (request->return_token_strs) {
    strings = Json::array();
    for (const int32_t id : *ids) strings.push_back(services.tokenizer.TokenBytes(id));
  }
  return JsonResponse({{"count", ids->size()},
                       {"max_model_len", services.model.max_model_len},
                       {"tokens", *ids},
                       {"token_strs", std::move(strings)}});
}

HttpResponse Detokenize(Services& services, const HttpRequest& http) {
  ApiResult<DetokenizeRequest> request = ParseDetokenizeRequest(http.body);
  if (!request.ok()) return ErrorResponse(request.error());
  if (auto error = services.CheckModel(request->model)) return ErrorResponse(*error);
  Result<std::string> text =
      services.tokenizer.Decode(request->tokens, request->skip_special_tokens);
  if (!text.ok()) return ErrorResponse(FromStatus(text.status(), "tokens"));
  return JsonResponse({{"prompt", std::move(*text)}});
}

}  // namespace quern::server
