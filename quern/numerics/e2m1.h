// FP4 E2M1 (OCP Microscaling Formats v1.0): one sign bit, magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6.
// No infinity, no NaN. Two codes share a byte: the element with the lower index is the low nibble.
#pragma once

#include <cstdint>

namespace quern {

inline constexpr float kE2M1Values[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                          -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

inline float E2M1ToF32(uint8_t nibble) { return kE2M1Values[nibble & 15]; }

// Rounds to nearest, ties to the even mantissa (0.25 -> 0, 0.75 -> 1, 2.5 -> 2, 5 -> 4); saturates
// at +-6. NaN gives +6 (formats with a block scale have no code for it).
uint8_t F32ToE2M1(float value);

}  // namespace quern
