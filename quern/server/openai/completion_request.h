// POST /v1/completions: the body as a struct.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "quern/server/sampling_fields.h"

namespace quern::server {

inline constexpr int kMaxPrompts = 1024;  // prompts x n, too

// Text to be tokenized, or token ids.
using PromptInput = std::variant<std::string, std::vector<int32_t>>;

struct CompletionRequest {
  std::optional<std::string> model;
  std::vector<PromptInput> prompts;  // at least one, none empty
  SamplingFields fields;
  int32_t num_top_logprobs = -1;  // as in engine::Request
  bool add_special_tokens = true;
};

// Never throws, whatever the bytes.
ApiResult<CompletionRequest> ParseCompletionRequest(std::string_view body,
                                                    const engine::SamplingParams& defaults);

// A list of token ids. Errors stay in `reader`.
std::vector<int32_t> ReadTokenIds(FieldReader& reader, const Json& list, const std::string& name);

}  // namespace quern::server
