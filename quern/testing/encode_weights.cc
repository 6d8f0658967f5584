#include "quern/testing/encode_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "quern/base/check.h"
#include "quern/numerics/bf16.h"
#include "quern/numerics/e2m1.h"
#include "quern/numerics/e4m3.h"
#include "quern/numerics/f16.h"
#include "quern/numerics/mxfp4.h"

namespace quern::testing {
namespace {

template <typename T>
void Append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value),
               sizeof(T));  // the format and our machines are little endian
}

template <typename T>
std::string Converted(const std::vector<float>& values, T (*convert)(float)) {
  std::string bytes;
  bytes.reserve(values.size() * sizeof(T));
  for (float value : values) Append(bytes, convert(value));
  return bytes;
}

float AbsMax(const float* values, int64_t count) {
  float amax = 0.0f;
  for (int64_t i = 0; i < count; ++i) amax = std::max(amax, std::fabs(values[i]));
  return amax;
}

// The scale that puts amax at the largest E4M3 value; all-zero weights get 1.
float Fp8Scale(float amax) { return amax > 0.0f ? amax / kE4M3Max : 1.0f; }

// E4M3 with one scale per [block_rows, block_cols].
std::vector<std::string> EncodeFp8(const std::vector<float>& values, int64_t rows, int64_t cols,
                                   int64_t block_rows, int64_t block_cols) {
  std::string codes(values.size(), '\0');
  std::string scales;
  for (int64_t r0 = 0; r0 < rows; r0 += block_rows) {
    const int64_t r1 = std::min(r0 + block_rows, rows);
    for (int64_t c0 = 0; c0 < cols; c0 += block_cols) {
      const int64_t c1 = std::min(c0 + block_cols, cols);
      float amax = 0.0f;
      for (int64_t r = r0; r < r1; ++r)
        amax = std::max(amax, AbsMax(&values[r * cols + c0], c1 - c0));
      const float scale = Fp8Scale(amax);
      Append(scales, scale);
      for (int64_t r = r0; r < r1; ++r) {
        for (int64_t c = c0; c < c1; ++c) {
          codes[r * cols + c] = static_cast<char>(F32ToE4M3(values[r * cols + c] / scale));
        }
      }
    }
  }
  return {std::move(codes), std::move(scales)};
}

std::vector<std::string> EncodeMxfp4(const std::vector<float>& values, int64_t rows, int64_t cols) {
  QUERN_CHECK(cols % kMxfp4Group == 0, "cols = {}", cols);
  std::string codes(rows * cols / 2, '\0'), scales(rows * cols / kMxfp4Group, '\0');
  for (int64_t r = 0; r < rows; ++r) {
    EncodeMxfp4Row(&values[r * cols], cols, reinterpret_cast<uint8_t*>(&codes[r * cols / 2]),
                   reinterpret_cast<uint8_t*>(&scales[r * cols / kMxfp4Group]));
  }
  return {std::move(codes), std::move(scales)};
}

std::vector<std::string> EncodeNvfp4(const std::vector<float>& values, int64_t rows, int64_t cols,
                                     bool divisor) {
  constexpr int64_t kGroup = 16;
  constexpr float kE2M1Max = 6.0f;
  QUERN_CHECK(cols % kGroup == 0, "cols = {}", cols);
  const float amax = AbsMax(values.data(), rows * cols);
  const float global = amax > 0.0f ? amax / (kE2M1Max * kE4M3Max) : 1.0f;
  std::string codes(rows * cols / 2, '\0'), scales(rows * cols / kGroup, '\0');
  for (int64_t g = 0; g < rows * cols / kGroup; ++g) {
    const float* group = &values[g * kGroup];
    const uint8_t code = F32ToE4M3(AbsMax(group, kGroup) / kE2M1Max / global);
    scales[g] = static_cast<char>(code);
    const float scale = E4M3ToF32(code) * global;
    for (int64_t i = 0; i < kGroup && scale > 0.0f; i += 2) {
      const uint8_t low = F32ToE2M1(group[i] / scale), high = F32ToE2M1(group[i + 1] / scale);
      codes[(g * kGroup + i) / 2] = static_cast<char>(low | (high << 4));
    }
  }
  std::string stored_global, input_global;
  Append(stored_global, divisor ? 1.0f / global : global);
  Append(input_global, divisor ? 448.0f : 1.0f / 448.0f);
  return {std::move(codes), std::move(scales), std::move(stored_global), std::move(input_global)};
}

}  // namespace

std::vector<std::string> EncodeWeights(Encoding encoding, const std::vector<float>& values,
                                       int64_t rows, int64_t cols) {
  QUERN_CHECK(static_cast<int64_t>(values.size()) == rows * cols, "{} values for [{}, {}]",
              values.size(), rows, cols);
  switch (encoding) {
    case Encoding::kF32:
      return {Converted<float>(values, [](float v) { return v; })};
    case Encoding::kF16:
      return {Converted<uint16_t>(values, F32ToF16)};
    case Encoding::kBf16:
      return {Converted<uint16_t>(values, F32ToBf16)};
    case Encoding::kFp8Block:
      return EncodeFp8(values, rows, cols, kFp8BlockSize, kFp8BlockSize);
    case Encoding::kFp8Channel:
      return EncodeFp8(values, rows, cols, 1, cols);
    case Encoding::kFp8Tensor:
      return EncodeFp8(values, rows, cols, rows, cols);
    case Encoding::kMxfp4:
      return EncodeMxfp4(values, rows, cols);
    case Encoding::kNvfp4Multiplier:
      return EncodeNvfp4(values, rows, cols, false);
    case Encoding::kNvfp4Divisor:
      return EncodeNvfp4(values, rows, cols, true);
  }
  return {};
}

}  // namespace quern::testing
