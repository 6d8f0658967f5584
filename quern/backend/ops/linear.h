// Matrix products with weights.
#pragma once

#include "quern/backend/tensor.h"
#include "quern/backend/weights.h"
#include "quern/base/status.h"

namespace quern::backend {

// y = x W^T: y[t, n] = sum over k of x[t, k] * w[n, k].
//   x  [tokens, k]  f32 or bf16, rows may be strided
//   w  [n, k]       any WeightFormat, decoded as numerics/stored_matrix.h defines
//   y  [tokens, n]  f32 or bf16; must not overlap x
// Order: one f32 fused multiply-add per k, k ascending from 0, for each element: its bits do not
// depend on the other rows, on tiles, threads or vector length. One rounding to y's type.
struct LinearArgs {
  Tensor x;
  const LinearWeights& w;
  Tensor y;
};
Status Validate(const LinearArgs& args);

// y[t, h] = x[t, h] W_h^T for each head h; order and rounding as Linear.
//   x  [tokens, heads, k]  w  [heads][n, k]  y  [tokens, heads, n]; x and y may be strided views
struct HeadLinearArgs {
  Tensor x;
  const HeadWeights& w;
  Tensor y;
};
Status Validate(const HeadLinearArgs& args);

// y[i] = table[ids[i]], converted to y's type.
//   ids  [tokens] i32, each in [0, table.rows())   y  [tokens, cols] f32 or bf16
struct EmbedArgs {
  const TableWeights& table;
  Tensor ids;
  Tensor y;
};
Status Validate(const EmbedArgs& args);

}  // namespace quern::backend
