// Normalisation and the residual sum.
#pragma once

#include "quern/backend/tensor.h"
#include "quern/base/status.h"

namespace quern::backend {

// y = round(x * rsqrt(mean(x^2) + eps)) * weight, per row.
//   x       [tokens, n]  f32 or bf16, rows may be strided
//   weight  [n]          f32
//   y       [tokens, n]  f32 or bf16; may be x itself
// round is to y's type, as the models were trained (the product with weight is rounded again).
// Order: the sum of squares runs in 16 chains (math.h), then 1 / sqrt(sum / n + eps).
struct RmsNormArgs {
  Tensor x, weight;
  float eps = 1e-5f;
  Tensor y;
};
Status Validate(const RmsNormArgs& args);

// y = (x - mean) / sqrt(var + eps) * weight + bias per row, var = mean((x - mean)^2); one rounding
// to y's type.
//   shapes and types as for RmsNorm; bias [n] f32
struct LayerNormArgs {
  Tensor x, weight, bias;
  float eps = 1e-6f;
  Tensor y;
};
Status Validate(const LayerNormArgs& args);

// y = round(y + x), element by element.
//   x, y  [tokens, n]  f32 or bf16
struct AddArgs {
  Tensor x, y;
};
Status Validate(const AddArgs& args);

}  // namespace quern::backend
