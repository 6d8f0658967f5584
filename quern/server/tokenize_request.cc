#include "quern/server/tokenize_request.h"

#include "quern/server/openai/completion_request.h"

namespace quern::server {

ApiResult<TokenizeRequest> ParseTokenizeRequest(std::string_view body) {
  ApiResult<Json> json = ParseBody(body);
  if (!json.ok()) return json.error();
  FieldReader reader(*json);
  TokenizeRequest request;
  request.model = reader.String("model");
  request.text = reader.String("prompt");
  if (request.text && reader.Find("messages") != nullptr) {
    reader.Fail("prompt", "send prompt or messages, not both");
  } else if (!request.text && reader.Find("messages") == nullptr) {
    reader.Fail("prompt", "prompt is missing; send a string as prompt, or messages",
                "missing_field");
  } else if (!request.text) {
    request.chat = ReadChatPrompt(reader);
  }
  request.add_special_tokens = reader.Bool("add_special_tokens").value_or(request.text.has_value());
  request.return_token_strs = reader.Bool("return_token_strs").value_or(false);
  reader.RefuseUnknown();
  if (!reader.ok()) return reader.error();
  return request;
}

ApiResult<DetokenizeRequest> ParseDetokenizeRequest(std::string_view body) {
  ApiResult<Json> json = ParseBody(body);
  if (!json.ok()) return json.error();
  FieldReader reader(*json);
  DetokenizeRequest request;
  request.model = reader.String("model");
  const Json* tokens = reader.Array("tokens");
  if (reader.ok() && tokens == nullptr) {
    reader.Fail("tokens", "tokens is missing, want a list of token ids", "missing_field");
  }
  if (reader.ok()) request.tokens = ReadTokenIds(reader, *tokens, "tokens");
  request.skip_special_tokens = reader.Bool("skip_special_tokens").value_or(false);
  reader.RefuseUnknown();
  if (!reader.ok()) return reader.error();
  return request;
}

}  // namespace quern::server
