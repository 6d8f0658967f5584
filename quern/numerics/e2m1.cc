#include "quern/numerics/e2m1.h"

#include <cmath>

namespace quern {

uint8_t F32ToE2M1(float value) {
  const uint8_t sign = std::signbit(value) && !std::isnan(value) ? 8 : 0;
  const float m = std::fabs(value);
  // Midpoints between neighbours; a tie goes to the code with an even mantissa bit.
  if (m <= 0.25f) return sign | 0;
  if (m < 0.75f) return sign | 1;
  if (m <= 1.25f) return sign | 2;
  if (m < 1.75f) return sign | 3;
  if (m <= 2.5f) return sign | 4;
  if (m < 3.5f) return sign | 5;
  if (m <= 5.0f) return sign | 6;
  return sign | 7;
}

}  // namespace quern
