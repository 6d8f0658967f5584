// Which tokens may be drawn, and how likely each is.
#pragma once

#include <span>
#include <vector>

#include "quern/engine/request.h"

namespace quern::engine {

struct Candidate {
  int32_t token = 0;
  double weight = 0;  // unnormalised probability: exp(logit - largest logit)
};

// The tokens left by temperature, top_k, top_p and min_p, in no particular order. At least one when
// some logit is finite. Equally likely tokens are ranked by lower id.
//   temperature  logits / temperature (> 0)
//   top_k        the k most likely
//   top_p        of those, the shortest prefix whose probability reaches top_p of what top_k left
//   min_p        of those, tokens with probability >= min_p * the largest
std::vector<Candidate> FilterCandidates(std::span<const float> logits,
                                        const SamplingParams& params);

}  // namespace quern::engine
