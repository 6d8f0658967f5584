// Random weights that depend on a seed, a tensor's name and an element's index only: any tensor can
// be made again alone, on any machine, to the same bits.
//
// Code inside namespace quern that includes this and uses GoogleTest's own namespace writes
// ::testing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quern::testing {

struct RandomWeights {
  uint64_t seed = 1;
  // e_score_correction_bias = offset + spread * normal. The offset of real files is large and the
  // spread small, so that keeping it in less than f32 changes which experts are chosen.
  float router_bias_offset = 6.9f;
  float router_bias_spread = 0.05f;
};

// Approximately normal (sum of four uniforms, so within +-3.47), mean 0, variance 1; the same bits
// everywhere.
float NormalAt(uint64_t key, uint64_t index);

// The f32 weights of a tensor under its checkpoint name, shape [out, in] or [n], row major.
// Matrices have standard deviation 1 / sqrt(in), which keeps activations near 1 from layer to layer
// (o_proj and down_proj half of it, lm_head twice: logits with a clear maximum); embeddings 1; norm
// weights lie around 1.
std::vector<float> MasterWeights(const RandomWeights& random, const std::string& name,
                                 const std::vector<int64_t>& shape);

}  // namespace quern::testing
