// MXFP4 (OCP MX v1.0): groups of 32 E2M1 values along a row with one E8M0 scale; 17 bytes, 4.25
// bits a weight.
//   codes   [k / 2]   byte j holds element 2j in its low nibble, 2j + 1 in its high nibble
//   scales  [k / 32]  E8M0
//   value = e2m1 * 2^(scale - 127), exact in f32
#pragma once

#include <cstdint>

namespace quern {

inline constexpr int64_t kMxfp4Group = 32;

// Decodes `k` values (k % 32 == 0). A NaN scale gives NaN values.
void DecodeMxfp4Row(const uint8_t* codes, const uint8_t* scales, int64_t k, float* out);

// The scale of a group as AMD Quark computes it in mode "even": with amax = m * 2^e, 1 <= m < 2,
// the exponent rises by one when m >= 1.75, and scale = 2^(e - 2). Codes are clamped to [1, 254],
// so that a scale is always a normal f32; an all-zero group gets code 1.
uint8_t Mxfp4EvenScale(float amax);

// Quantizes `k` finite values with Mxfp4EvenScale and E2M1 rounding; k % 32 == 0. The bytes are
// those that Quark stores: what rounds to zero becomes code 0, never -0 (code 8).
void EncodeMxfp4Row(const float* values, int64_t k, uint8_t* codes, uint8_t* scales);

}  // namespace quern
