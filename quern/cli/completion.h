// One request through the engine, waited for: what `generate` and `chat` do.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quern/base/status.h"
#include "quern/checkpoint/config.h"
#include "quern/engine/engine.h"

namespace quern::cli {

// How tokens are drawn, as flags. What is not given comes from generation_config.json, then from
// the engine's defaults.
struct SamplingFlags {
  std::optional<float> temperature, top_p, min_p;
  std::optional<float> presence_penalty, frequency_penalty, repetition_penalty;
  std::optional<int32_t> top_k;
  std::optional<uint64_t> seed;
  std::optional<int32_t> max_tokens;
  std::vector<std::string> stop;
  bool ignore_eos = false;
};
void AddSamplingFlags(CLI::App& command, SamplingFlags& flags);

// Without --seed a seed is drawn, so that two runs differ; it is in the request, to be printed.
engine::SamplingParams MakeSampling(const SamplingFlags& flags,
                                    const checkpoint::GenerationConfig& defaults);

// Without --max-tokens the answer may have `max_tokens` tokens, or as many as fit after the prompt
// if that is fewer or `max_tokens` is 0. A --max-tokens that does not fit is refused by the engine,
// not shortened.
engine::Request MakeRequest(std::vector<int32_t> prompt, const SamplingFlags& flags,
                            const checkpoint::GenerationConfig& defaults,
                            const std::vector<int32_t>& eos_token_ids, int32_t max_tokens,
                            int64_t max_model_len);

struct Completion {
  std::string text;
  std::vector<int32_t> tokens;
  engine::FinishReason finish = engine::FinishReason::kNone;
  std::string stop_string;  // which one ended it, if one did
  int32_t num_prompt_tokens = 0;
  int32_t num_cached_tokens = 0;
  int32_t num_completion_tokens = 0;
  double first_token_ms = 0;  // from submitting
  double total_ms = 0;
  // Tokens after the first per second; 0 with fewer than two.
  double tokens_per_second() const;
};

// "stop", "length", "cancelled" or "error", as OpenAI's finish_reason where it has the word.
const char* FinishReasonName(engine::FinishReason reason);

// Submits `request` and waits. `on_text` gets the text in pieces, on this thread. Ctrl-C
// (InterruptFlag) cancels the request: not an error, finish is kCancelled. A request that failed
// while running is the error it reported.
Result<Completion> Complete(engine::Engine& engine, engine::Request request,
                            const std::function<void(std::string_view)>& on_text);

}  // namespace quern::cli
