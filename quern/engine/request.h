// What goes into the engine and what comes out of it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace quern::engine {

// How tokens are drawn. Applied in this order: penalties, logit_bias, temperature, top_k, top_p,
// min_p, draw.
struct SamplingParams {
  float temperature = 1.0f;         // 0 = greedy (ties to the lower id)
  int32_t top_k = 0;                // 0 = off
  float top_p = 1.0f;               // (0, 1]
  float min_p = 0.0f;               // [0, 1]; relative to the most likely token
  float presence_penalty = 0.0f;    // [-2, 2], over generated tokens
  float frequency_penalty = 0.0f;   // [-2, 2], over generated tokens
  float repetition_penalty = 1.0f;  // > 0; over prompt and generated tokens
  std::map<int32_t, float> logit_bias;
  uint64_t seed = 0;  // one draw per (seed, position): the same request gives the same tokens
};

struct Request {
  std::vector<int32_t> prompt;  // at least one token
  SamplingParams sampling;
  int32_t max_tokens = 16;  // at least 1
  std::vector<int32_t>
      stop_token_ids;       // usually the model's eos ids; a stop token is not part of the text
  bool ignore_eos = false;  // stop_token_ids do not stop
  std::vector<std::string> stop_strings;
  int32_t num_top_logprobs =
      -1;  // -1: no logprobs at all; 0: of the sampled token only; n: the n best as well
  bool skip_special_tokens = true;
  int32_t priority = 0;  // lower is served earlier; each level is worth ten seconds in line
};

enum class FinishReason { kNone, kStop, kLength, kCancelled, kError };

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;  // natural log, of the model's distribution before temperature and filters
};

// One event per generated token, then exactly one last event with finish != kNone.
struct TokenEvent {
  bool has_token = false;
  int32_t token = 0;
  TokenLogprob logprob;                    // if asked for
  std::vector<TokenLogprob> top_logprobs;  // best first, if asked for
  std::string text;                        // text that became certain; may be empty or span tokens
  FinishReason finish = FinishReason::kNone;
  std::string stop_string;    // finish == kStop by a stop string: which one
  std::string error_message;  // finish == kError
  // In the last event:
  int32_t num_prompt_tokens = 0;
  int32_t num_cached_tokens = 0;
  int32_t num_completion_tokens = 0;          // generated tokens, the stop token included
  int32_t num_drafted = 0, num_accepted = 0;  // guesses of the MTP layer, and those that were right
  double queue_seconds = 0;                   // from Submit to the first step
  bool simulated = false;                     // drafts were accepted unseen: no real answer
};

// Called on the engine's thread, in order, one request at a time; must return quickly and not call
// the engine.
using EventSink = std::function<void(const TokenEvent&)>;

}  // namespace quern::engine
