// The scalar functions that give ops their bits. Every backend's fast path follows these step by
// step: only IEEE operations that round once (+, *, /, sqrt, fma), in the order written here.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace quern::backend {

inline constexpr float kExpLow =
    -87.0f;  // exp below gives 0: probabilities that small do not matter
inline constexpr float kExpHigh = 88.0f;
inline constexpr float kLog2E = 1.44269504f;
inline constexpr float kLn2High = 0.693359375f;  // 9 bits: n * kLn2High is exact for |n| < 2^15
inline constexpr float kLn2Low = -2.12194440e-4f;
// Minimax polynomial of Cephes expf: exp(r) = 1 + r + r^2 (c0 r^5 + .. + c5) on [-ln2/2, ln2/2].
inline constexpr float kExpPoly[6] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                                      4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};

// exp(x) within 2 ulp for kExpLow <= x <= kExpHigh, saturating outside (0 below, exp(kExpHigh)
// above).
inline float Exp(float x) {
  if (!(x >= kExpLow)) return x != x ? x : 0.0f;
  x = x > kExpHigh ? kExpHigh : x;
  const float n = std::nearbyint(x * kLog2E);
  const float r = std::fma(n, -kLn2Low, std::fma(n, -kLn2High, x));
  float p = kExpPoly[0];
  for (int i = 1; i < 6; ++i) p = std::fma(p, r, kExpPoly[i]);
  const float y = std::fma(p, r * r, r) + 1.0f;
  return y * std::bit_cast<float>(static_cast<uint32_t>(static_cast<int32_t>(n) + 127) << 23);
}

inline float Sigmoid(float x) { return 1.0f / (1.0f + Exp(-x)); }
inline float Silu(float x) { return x / (1.0f + Exp(-x)); }

// Sums run in 16 interleaved chains (element i in chain i % 16), then pairwise: a vector of 16, 8
// or 4 lanes does the same additions.
inline constexpr int64_t kSumLanes = 16;
inline float ReduceLanes(float (&lanes)[kSumLanes]) {
  for (int64_t w = kSumLanes / 2; w > 0; w /= 2) {
    for (int64_t i = 0; i < w; ++i) lanes[i] += lanes[i + w];
  }
  return lanes[0];
}

}  // namespace quern::backend
