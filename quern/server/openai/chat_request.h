// POST /v1/chat/completions: the body as a struct.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "quern/server/openai/messages.h"
#include "quern/server/sampling_fields.h"

namespace quern::server {

struct ChatRequest {
  std::optional<std::string> model;
  ChatPrompt prompt;
  SamplingFields fields;
  bool logprobs = false;
  int32_t top_logprobs = 0;
};

// Everything that can be judged without a tokenizer or template. Never throws, whatever the bytes.
ApiResult<ChatRequest> ParseChatRequest(std::string_view body,
                                        const engine::SamplingParams& defaults);

}  // namespace quern::server
