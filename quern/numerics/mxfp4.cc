#include "quern/numerics/mxfp4.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "quern/numerics/e2m1.h"
#include "quern/numerics/e8m0.h"

namespace quern {

void DecodeMxfp4Row(const uint8_t* codes, const uint8_t* scales, int64_t k, float* out) {
  for (int64_t i = 0; i < k; i += 2) {
    const float scale = E8M0ToF32(scales[i / kMxfp4Group]);
    out[i] = E2M1ToF32(codes[i / 2] & 15) * scale;
    out[i + 1] = E2M1ToF32(codes[i / 2] >> 4) * scale;
  }
}

uint8_t Mxfp4EvenScale(float amax) {
  // Adding 2^21 to the bits carries into the exponent exactly when the mantissa is at least 1.75.
  const uint32_t bits = std::bit_cast<uint32_t>(amax) + 0x200000u;
  const int code = static_cast<int>((bits >> 23) & 0xFF) - 2;  // 2^(e - 2), e biased by 127 already
  return static_cast<uint8_t>(std::clamp(code, 1, 254));
}

namespace {

// The code of one element; what rounds to zero has no sign, as in files from Quark.
uint8_t ElementCode(float value) {
  const uint8_t code = F32ToE2M1(value);
  return code == 8 ? 0 : code;
}

}  // namespace

void EncodeMxfp4Row(const float* values, int64_t k, uint8_t* codes, uint8_t* scales) {
  for (int64_t g = 0; g < k / kMxfp4Group; ++g) {
    const float* group = values + g * kMxfp4Group;
    float amax = 0.0f;
    for (int64_t i = 0; i < kMxfp4Group; ++i) amax = std::max(amax, std::fabs(group[i]));
    const uint8_t code = Mxfp4EvenScale(amax);
    scales[g] = code;
    const float scale = E8M0ToF32(code);
    for (int64_t i = 0; i < kMxfp4Group; i += 2) {
      const uint8_t low = ElementCode(group[i] / scale);
      const uint8_t high = ElementCode(group[i + 1] / scale);
      codes[(g * kMxfp4Group + i) / 2] = static_cast<uint8_t>(low | (high << 4));
    }
  }
}

}  // namespace quern
