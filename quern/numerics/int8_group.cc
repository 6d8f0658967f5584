#include "quern/numerics/int8_group.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "quern/numerics/bf16.h"

namespace quern {

float QuantizeInt8Group(const float* values, int64_t n, bool bf16_scale, int8_t* codes) {
  float amax = 0.0f;
  bool finite = true;
  for (int64_t i = 0; i < n; ++i) {
    finite = finite && std::isfinite(values[i]);
    amax = std::max(amax, std::fabs(values[i]));
  }
  for (int64_t i = 0; i < n; ++i) codes[i] = 0;
  if (!finite) return std::numeric_limits<float>::quiet_NaN();
  float scale = amax / 127.0f;
  if (bf16_scale) scale = Bf16ToF32(F32ToBf16(scale));
  if (scale == 0.0f) return 0.0f;
  for (int64_t i = 0; i < n; ++i) {
    const float code = std::nearbyint(values[i] / scale);
    codes[i] = static_cast<int8_t>(std::clamp(code, -127.0f, 127.0f));
  }
  return scale;
}

void EncodeInt8Row(const float* values, int64_t cols, int8_t* codes, uint16_t* scales) {
  for (int64_t k = 0; k < cols; k += kInt8Group) {
    const int64_t n = std::min(kInt8Group, cols - k);
    scales[k / kInt8Group] = F32ToBf16(QuantizeInt8Group(values + k, n, true, codes + k));
  }
}

void DecodeInt8Row(const int8_t* codes, const uint16_t* scales, int64_t cols, float* out) {
  for (int64_t k = 0; k < cols; ++k) {
    out[k] = Bf16ToF32(scales[k / kInt8Group]) * static_cast<float>(codes[k]);
  }
}

}  // namespace quern
