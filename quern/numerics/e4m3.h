// FP8 E4M3, the "fn" variant of the OCP 8-bit specification: bias 7, largest value 448, no
// infinities, NaN at codes 0x7F and 0xFF.
#pragma once

#include <cstdint>

namespace quern {

inline constexpr float kE4M3Max = 448.0f;

// Value of each of the 256 codes; exact in f32 and in bf16.
extern const float kE4M3Values[256];

inline float E4M3ToF32(uint8_t code) { return kE4M3Values[code]; }

// Rounds to nearest, ties to even mantissa; saturates at +-448. NaN gives 0x7F.
uint8_t F32ToE4M3(float value);

}  // namespace quern
