#include "quern/numerics/stored_matrix.h"

#include <cstring>

#include "quern/numerics/bf16.h"
#include "quern/numerics/e2m1.h"
#include "quern/numerics/e4m3.h"
#include "quern/numerics/e8m0.h"
#include "quern/numerics/f16.h"

namespace quern {
namespace {

struct FormatRow {
  WeightFormat format;
  std::string_view name;
  int64_t bits;  // of one code
};
constexpr FormatRow kWeightFormats[] = {
    {WeightFormat::kF32, "f32", 32},
    {WeightFormat::kF16, "f16", 16},
    {WeightFormat::kBf16, "bf16", 16},
    {WeightFormat::kFp8Block, "fp8_block", 8},
    {WeightFormat::kFp8Channel, "fp8_channel", 8},
    {WeightFormat::kFp8Tensor, "fp8_tensor", 8},
    {WeightFormat::kMxfp4, "mxfp4", 4},
    {WeightFormat::kNvfp4, "nvfp4", 4},
};

// File bytes need not be aligned for T.
template <typename T>
T Load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

}  // namespace

std::string_view WeightFormatName(WeightFormat format) {
  return kWeightFormats[static_cast<int>(format)].name;
}

int64_t PackedRowBytes(WeightFormat format, int64_t cols) {
  return cols * kWeightFormats[static_cast<int>(format)].bits / 8;
}

int64_t ScaleGroup(const StoredMatrix& m) {
  switch (m.format) {
    case WeightFormat::kFp8Block:
      return m.block_cols;
    case WeightFormat::kMxfp4:
      return 32;
    case WeightFormat::kNvfp4:
      return 16;
    default:
      return m.cols;
  }
}

float ScaleAt(const StoredMatrix& m, int64_t row, int64_t col) {
  switch (m.format) {
    case WeightFormat::kF32:
    case WeightFormat::kF16:
    case WeightFormat::kBf16:
      return 1.0f;
    case WeightFormat::kFp8Block:
      return Load<float>(m.scales + (row / m.block_rows) * m.scale_row_bytes +
                         (col / m.block_cols) * 4);
    case WeightFormat::kFp8Channel:
      return Load<float>(m.scales + row * m.scale_row_bytes);
    case WeightFormat::kFp8Tensor:
      return Load<float>(m.scales);
    case WeightFormat::kMxfp4:
      return E8M0ToF32(Load<uint8_t>(m.scales + row * m.scale_row_bytes + col / 32));
    case WeightFormat::kNvfp4:
      return E4M3ToF32(Load<uint8_t>(m.scales + row * m.scale_row_bytes + col / 16)) *
             m.global_scale;
  }
  return 1.0f;
}

void DecodeRow(const StoredMatrix& m, int64_t row, float* out) {
  const std::byte* p = m.data + row * m.row_bytes;
  const int64_t group = ScaleGroup(m);
  for (int64_t begin = 0; begin < m.cols; begin += group) {
    const float scale = ScaleAt(m, row, begin);
    const int64_t end = begin + group < m.cols ? begin + group : m.cols;
    for (int64_t i = begin; i < end; ++i) {
      switch (m.format) {
        case WeightFormat::kF32:
          out[i] = Load<float>(p + 4 * i);
          break;
        case WeightFormat::kF16:
          out[i] = F16ToF32(Load<uint16_t>(p + 2 * i));
          break;
        case WeightFormat::kBf16:
          out[i] = Bf16ToF32(Load<uint16_t>(p + 2 * i));
          break;
        case WeightFormat::kFp8Block:
        case WeightFormat::kFp8Channel:
        case WeightFormat::kFp8Tensor:
          out[i] = E4M3ToF32(Load<uint8_t>(p + i)) * scale;
          break;
        case WeightFormat::kMxfp4:
        case WeightFormat::kNvfp4: {
          const uint8_t pair = Load<uint8_t>(p + i / 2);
          out[i] = E2M1ToF32(i % 2 == 0 ? pair : pair >> 4) * scale;
          break;
        }
      }
    }
  }
}

}  // namespace quern
