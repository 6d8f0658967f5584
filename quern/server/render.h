// Messages to the prompt the model sees.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quern/server/errors.h"
#include "quern/server/openai/messages.h"
#include "quern/text/chat_template.h"
#include "quern/text/tokenizer.h"

namespace quern::server {

struct RenderedPrompt {
  std::string text;
  // The answer begins inside reasoning: the prompt ends with "<think>", or the message to be
  // continued left it open.
  bool starts_in_reasoning = false;
  // The call a continued message has begun, from its "<tool_call>" on; the parser must see it to
  // complete it.
  std::string open_tool_call;
};

// `chat_template` may be null: an error that says so.
ApiResult<RenderedPrompt> RenderChat(const text::ChatTemplate* chat_template,
                                     const ChatPrompt& prompt);

// Token ids of `text`; an error about field `param` if it is not valid.
ApiResult<std::vector<int32_t>> EncodePrompt(const text::Tokenizer& tokenizer,
                                             std::string_view text, bool add_special_tokens,
                                             const std::string& param);

}  // namespace quern::server
