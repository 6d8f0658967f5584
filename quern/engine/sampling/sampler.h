// From logits to a token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quern/base/status.h"
#include "quern/engine/request.h"

namespace quern::engine {

// A number in [0, 1) that depends on (seed, position) only: the same request draws the same token
// whatever ran beside it, and with or without drafts. SplitMix64 (Steele, Lea, Flood 2014) over
// both words.
double UniformDraw(uint64_t seed, int64_t position);

// One per sequence: knows the tokens seen so far. Not thread-safe.
class Sampler {
 public:
  // Ids in [num_tokens, vocab) are padding rows of the embedding and are never drawn.
  Sampler(const SamplingParams& params, std::span<const int32_t> prompt, int64_t num_tokens);

  // Applies the chain of SamplingParams to `logits` [vocab] in place and draws the token for
  // `position`. kInternal when no logit is finite.
  Result<int32_t> Sample(std::span<float> logits, int64_t position);
  // The same without counting the token as seen: for guesses.
  Result<int32_t> Draw(std::span<float> logits, int64_t position) const;

 private:
  void Penalize(std::span<float> logits) const;

  SamplingParams params_;
  int64_t num_tokens_;
  std::vector<int32_t> counts_;  // [num_tokens] times generated
  std::vector<bool> in_prompt_;  // [num_tokens]
};

// log softmax of `logits` [vocab] at `token`, and the `num_top` best of it, best first, ties to the
// lower id. Ids from num_tokens on count for nothing.
struct Logprobs {
  TokenLogprob token;
  std::vector<TokenLogprob> top;
};
Logprobs ComputeLogprobs(std::span<const float> logits, int64_t num_tokens, int32_t token,
                         int32_t num_top);

}  // namespace quern::engine
