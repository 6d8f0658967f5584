// E8M0 (OCP Microscaling Formats v1.0): a power of two, 2^(code - 127). Code 255 is NaN.
#pragma once

#include <bit>
#include <cstdint>

namespace quern {

inline constexpr uint8_t kE8M0Nan = 0xFF;

// Exact: code 0 is 2^-127, a subnormal f32.
inline float E8M0ToF32(uint8_t code) {
  if (code == kE8M0Nan) return std::bit_cast<float>(0x7FC00000u);
  if (code == 0) return std::bit_cast<float>(0x00400000u);
  return std::bit_cast<float>(static_cast<uint32_t>(code) << 23);
}

}  // namespace quern
