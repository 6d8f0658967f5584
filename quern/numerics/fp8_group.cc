#include "quern/numerics/fp8_group.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "quern/numerics/e4m3.h"

namespace quern {

void EncodeFp8Row(const float* values, int64_t cols, uint8_t* codes, float* scales) {
  for (int64_t k = 0; k < cols; k += kFp8Group) {
    const int64_t end = std::min(k + kFp8Group, cols);
    float amax = 0.0f;
    bool finite = true;
    for (int64_t i = k; i < end; ++i) {
      finite = finite && std::isfinite(values[i]);
      amax = std::max(amax, std::fabs(values[i]));
    }
    const float scale = finite ? amax / kE4M3Max : std::numeric_limits<float>::quiet_NaN();
    scales[k / kFp8Group] = scale;
    for (int64_t i = k; i < end; ++i) {
      codes[i] = scale > 0.0f ? F32ToE4M3(values[i] / scale) : uint8_t{0};
    }
  }
}

void DecodeFp8Row(const uint8_t* codes, const float* scales, int64_t cols, float* out) {
  for (int64_t k = 0; k < cols; ++k) out[k] = E4M3ToF32(codes[k]) * scales[k / kFp8Group];
}

}  // namespace quern
