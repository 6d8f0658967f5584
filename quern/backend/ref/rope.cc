#include <cmath>

#include "quern/backend/host/host_memory.h"
#include "quern/backend/ref/ref_ops.h"

namespace quern::backend::ref {
using host::LoadF32;
using host::RowVoid;
using host::StoreF32;

void RopeTable(const RopeTableArgs& a) {
  const int64_t half = a.dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    // f32 steps as in transformers: exponent, power and reciprocal are each rounded to f32.
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(a.dim);
    const float inv_freq =
        1.0f / static_cast<float>(std::pow(a.theta, static_cast<double>(exponent)));
    for (int64_t t = 0; t < a.positions.dim(0); ++t) {
      const float angle = static_cast<float>(host::I32(a.positions, t)) * inv_freq;
      float* out = static_cast<float*>(a.out.data) + t * a.dim;
      out[i] = std::cos(angle);
      out[half + i] = std::sin(angle);
    }
  }
}

void Rope(const RopeArgs& a) {
  const int64_t half = a.x.dim(2) / 2;
  for (int64_t t = 0; t < a.x.dim(0); ++t) {
    const float* cosines = static_cast<const float*>(a.table.data) + t * a.table.stride(0);
    const float* sines = cosines + half;
    for (int64_t h = 0; h < a.x.dim(1); ++h) {
      const void* x = RowVoid(a.x, t, h);
      void* y = RowVoid(a.y, t, h);
      for (int64_t i = 0; i < half; ++i) {
        const int64_t first = a.interleave ? 2 * i : i;
        const int64_t second = a.interleave ? 2 * i + 1 : i + half;
        const float u = LoadF32(a.x.dtype, x, first), v = LoadF32(a.x.dtype, x, second);
        StoreF32(a.y.dtype, y, first, u * cosines[i] - v * sines[i]);
        StoreF32(a.y.dtype, y, second, v * cosines[i] + u * sines[i]);
      }
    }
  }
}

}  // namespace quern::backend::ref
