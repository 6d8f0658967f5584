#include <cmath>

#include "quern/backend/host/host_memory.h"
#include "quern/backend/math.h"
#include "quern/backend/ref/ref_ops.h"

namespace quern::backend::ref {
using host::LoadF32;
using host::RoundTo;
using host::RowVoid;
using host::StoreF32;

void RmsNorm(const RmsNormArgs& a) {
  const int64_t n = a.x.dim(1);
  const float* weight = static_cast<const float*>(a.weight.data);
  for (int64_t t = 0; t < a.x.dim(0); ++t) {
    const void* x = RowVoid(a.x, t);
    float lanes[kSumLanes] = {};
    for (int64_t i = 0; i < n; ++i) {
      const float v = LoadF32(a.x.dtype, x, i);
      lanes[i % kSumLanes] = std::fma(v, v, lanes[i % kSumLanes]);
    }
    const float r = 1.0f / std::sqrt(ReduceLanes(lanes) / static_cast<float>(n) + a.eps);
    for (int64_t i = 0; i < n; ++i) {
      StoreF32(a.y.dtype, RowVoid(a.y, t), i,
               RoundTo(a.y.dtype, LoadF32(a.x.dtype, x, i) * r) * weight[i]);
    }
  }
}

void LayerNorm(const LayerNormArgs& a) {
  const int64_t n = a.x.dim(1);
  const float* weight = static_cast<const float*>(a.weight.data);
  const float* bias = static_cast<const float*>(a.bias.data);
  for (int64_t t = 0; t < a.x.dim(0); ++t) {
    const void* x = RowVoid(a.x, t);
    float lanes[kSumLanes] = {};
    for (int64_t i = 0; i < n; ++i) lanes[i % kSumLanes] += LoadF32(a.x.dtype, x, i);
    const float mean = ReduceLanes(lanes) / static_cast<float>(n);
    float squares[kSumLanes] = {};
    for (int64_t i = 0; i < n; ++i) {
      const float d = LoadF32(a.x.dtype, x, i) - mean;
      squares[i % kSumLanes] = std::fma(d, d, squares[i % kSumLanes]);
    }
    const float r = 1.0f / std::sqrt(ReduceLanes(squares) / static_cast<float>(n) + a.eps);
    for (int64_t i = 0; i < n; ++i) {
      const float normed = (LoadF32(a.x.dtype, x, i) - mean) * r;
      StoreF32(a.y.dtype, RowVoid(a.y, t), i, std::fma(normed, weight[i], bias[i]));
    }
  }
}

void Add(const AddArgs& a) {
  for (int64_t t = 0; t < a.x.dim(0); ++t) {
    void* y = RowVoid(a.y, t);
    for (int64_t i = 0; i < a.x.dim(1); ++i) {
      StoreF32(a.y.dtype, y, i, LoadF32(a.y.dtype, y, i) + LoadF32(a.x.dtype, RowVoid(a.x, t), i));
    }
  }
}

}  // namespace quern::backend::ref
