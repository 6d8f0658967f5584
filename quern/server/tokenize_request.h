// POST /tokenize and /detokenize: the bodies as structs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quern/server/openai/messages.h"

namespace quern::server {

struct TokenizeRequest {
  std::optional<std::string> model;
  std::optional<std::string> text;  // "prompt"; else `chat`
  ChatPrompt chat;
  bool add_special_tokens = true;  // false by default for messages: the template writes its own
  bool return_token_strs = false;
};
ApiResult<TokenizeRequest> ParseTokenizeRequest(std::string_view body);

struct DetokenizeRequest {
  std::optional<std::string> model;
  std::vector<int32_t> tokens;
  bool skip_special_tokens = false;
};
ApiResult<DetokenizeRequest> ParseDetokenizeRequest(std::string_view body);

}  // namespace quern::server
