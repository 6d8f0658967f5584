// Kernels that work on one row of activations at a time.
#pragma once

#include "quern/backend/tensor.h"
#include "quern/numerics/dtype.h"

namespace quern::backend::cpu {

// n elements of `type` to f32.
void RowToF32(Dtype type, const void* src, int64_t n, float* out);

// ops/norm.h, one row of n. `scratch` holds n floats.
void RmsNormRow(Dtype x_type, const void* x, const float* weight, float eps, int64_t n,
                Dtype y_type, void* y, float* scratch);
// y += x.
void AddRow(Dtype x_type, const void* x, int64_t n, Dtype y_type, void* y);
// ops/moe.h: y = silu(gate_up[: n]) * gate_up[n : 2 n].
void SwiGluRow(Dtype type, const void* gate_up, int64_t n, void* y);
// acc[i] += weight * row[i], product and sum rounded separately; then, for the last row, stored to
// y.
void AccumulateRow(Dtype type, const void* row, float weight, int64_t n, float* acc);
void StoreRowAs(const float* acc, int64_t n, Dtype type, void* y);

}  // namespace quern::backend::cpu
