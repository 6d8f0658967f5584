// bfloat16: the upper half of an IEEE binary32. Decode is exact; encode rounds to nearest, ties to
// even.
#pragma once

#include <bit>
#include <cstdint>

namespace quern {

inline float Bf16ToF32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// NaN stays NaN (made quiet); overflow goes to infinity, as IEEE rounding does.
inline uint16_t F32ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace quern
