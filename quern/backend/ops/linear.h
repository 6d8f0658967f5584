// Matrix products with weights.
#pragma once

#include "quern/backend/tensor.h"
#include "quern/backend/weights.h"
#include "quern/base/status.h"

namespace quern::backend {

// y = x W^T: y[t, n] = sum over k of x[t, k] * w[n, k].
//   x  [tokens, k]  f32 or bf16, rows may be strided
//   w  [n, k]       any WeightFormat and ComputeFormat
//   y  [tokens, n]  f32 or bf16; must not overlap x
// kStored, kFp8: w decoded as numerics/stored_matrix.h (fp8_group.h) defines, one f32 fused
// multiply-add per k, k ascending from 0.
// kInt8, kMxfp4Int8: x is quantized per row in groups of 32 along k (numerics/int8_group.h, f32
// scales xs); the weights have codes c and scales ws per group: kInt8 as int8_group.h encodes the
// decoded weights, kMxfp4Int8 c = 2 e2m1 and ws = 2^(e8m0 - 127). Groups ascending from 0:
//   dot = sum over the group of xc * c, an exact integer;  acc = fma(float(dot), xs * ws, acc)
// and kMxfp4Int8 takes 0.5 * acc at the end, for its doubled codes. The product of the scales is
// rounded to f32. A row whose group holds an infinity or NaN gives NaN everywhere.
// In all of them the bits of an element do not depend on the other rows, on tiles, threads or
// vector length. One rounding to y's type.
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
