// Rotary position embedding.
#pragma once

#include "quern/backend/tensor.h"
#include "quern/base/status.h"

namespace quern::backend {

// cos and sin of position * theta^(-2i/dim) for i in [0, dim / 2), in f32 as transformers computes
// them: the inverse frequency is rounded to f32, then the angle, then cos and sin. Made once per
// step for all layers.
//   positions  [tokens] i32   out  [tokens, 2, dim / 2] f32: cosines, then sines
struct RopeTableArgs {
  Tensor positions;
  double theta = 0;
  int64_t dim = 0;
  Tensor out;
};
Status Validate(const RopeTableArgs& args);

// Rotates x per head: (a, b) -> (a cos - b sin, b cos + a sin).
//   x  [tokens, heads, dim] f32 or bf16, strided   table  from RopeTable with the same dim
//   y  as x, any activation type; may be x itself, must not overlap it otherwise
// Pairs are (x[2i], x[2i + 1]) when `interleave` (GLM, GPT-J), else (x[i], x[i + dim / 2]) (NeoX).
// Pairs stay in place. Each product and the sum round to f32 (no fused multiply-add); one rounding
// to y's type at the end.
struct RopeArgs {
  Tensor x;
  Tensor table;
  bool interleave = true;
  Tensor y;
};
Status Validate(const RopeArgs& args);

}  // namespace quern::backend
