// The part of a request that chat and text completions share: how tokens are drawn and when to
// stop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quern/engine/request.h"
#include "quern/server/field_reader.h"

namespace quern::server {

inline constexpr int kMaxStopStrings = 16;
inline constexpr size_t kMaxStopBytes = 1024;  // per stop string
inline constexpr int kMaxChoices = 128;        // n
inline constexpr int kMaxTopLogprobs = 20;

struct SamplingFields {
  engine::SamplingParams sampling;  // the defaults where the request says nothing
  bool has_seed = false;            // else the caller draws one
  std::optional<int64_t> max_tokens;
  const char* max_tokens_name = "max_tokens";  // the field it came by, for errors
  std::vector<std::string> stop;
  bool ignore_eos = false;
  bool skip_special_tokens = true;
  int32_t priority = 0;
  int32_t num_choices = 1;  // n
  bool stream = false;
  bool include_usage = false;  // stream_options.include_usage
};

// Reads them from a request body. Errors stay in `reader`.
SamplingFields ReadSamplingFields(FieldReader& reader, const engine::SamplingParams& defaults);

// The engine's request for choice `index` of one prompt: seed + index, so that choices differ and
// each can be had again alone.
engine::Request MakeEngineRequest(const SamplingFields& fields, std::vector<int32_t> prompt,
                                  int32_t max_tokens, const std::vector<int32_t>& eos_token_ids,
                                  int index);

}  // namespace quern::server
