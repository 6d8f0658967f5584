// IEEE binary16. Decode is exact, subnormals included; encode rounds to nearest, ties to even.
#pragma once

#include <cstdint>

namespace quern {

float F16ToF32(uint16_t bits);
uint16_t F32ToF16(float value);

}  // namespace quern
