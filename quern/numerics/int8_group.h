// int8 in groups of 32 that share a scale, symmetric: value = scale * code, codes in [-127, 127].
// The number format of activations in integer products, and of weights made for them at load.
#pragma once

#include <cstdint>

namespace quern {

inline constexpr int64_t kInt8Group = 32;

// Quantizes the n <= 32 values of one group, n >= 1, and returns the scale:
//   amax = max |values|;  scale = amax / 127 in f32, once more rounded to bf16 when `bf16_scale`
//   code = values / scale in f32, rounded to nearest even, then clamped to [-127, 127]
// All codes are 0 when the scale is 0 (zeros, and values below about 2^-143). A value that is
// infinite or NaN makes the scale NaN and all codes 0, so that what is computed from it is NaN too.
float QuantizeInt8Group(const float* values, int64_t n, bool bf16_scale, int8_t* codes);

// A row of weights [cols] in groups of 32 (the last may be shorter): codes [cols], bf16 scales
// [ceil(cols / 32)]. 8.5 bits a weight.
void EncodeInt8Row(const float* values, int64_t cols, int8_t* codes, uint16_t* scales);
// scale * code, exact in f32 but for underflow: 8 bits of each make 15.
void DecodeInt8Row(const int8_t* codes, const uint16_t* scales, int64_t cols, float* out);

}  // namespace quern
