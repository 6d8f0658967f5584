#include "quern/backend/ops/op_testing.h"

#include "quern/numerics/e4m3.h"
#include "quern/numerics/f16.h"

namespace quern::backend {
namespace {

template <typename T>
void Put(std::vector<std::byte>& bytes, int64_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

uint8_t RandomE4M3(Rng& rng, bool nan_codes) {
  const auto code = static_cast<uint8_t>(Uniform(rng, 0, 255));
  return !nan_codes && (code & 0x7F) == 0x7F ? 0 : code;
}

void PutElement(WeightFormat format, Rng& rng, bool nan_codes, std::vector<std::byte>& row,
                int64_t at, int64_t k) {
  switch (format) {
    case WeightFormat::kF32:
      return Put(row, at + 4 * k, Normal(rng));
    case WeightFormat::kF16:
      return Put(row, at + 2 * k, F32ToF16(Normal(rng)));
    case WeightFormat::kBf16:
      return Put(row, at + 2 * k, F32ToBf16(Normal(rng)));
    case WeightFormat::kMxfp4:
    case WeightFormat::kNvfp4:
      return Put(row, at + k / 2, static_cast<uint8_t>(Uniform(rng, 0, 255)));
    default:
      return Put(row, at + k, RandomE4M3(rng, nan_codes));
  }
}

}  // namespace

StoredCase MakeStored(WeightFormat format, int64_t rows, int64_t cols, Rng& rng,
                      const StoredOptions& options) {
  StoredCase c;
  StoredMatrix& m = c.matrix;
  m.format = format;
  m.rows = rows;
  m.cols = cols;
  m.row_bytes = PackedRowBytes(format, cols) + 3;
  c.data.resize(static_cast<size_t>(rows * m.row_bytes + 1));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = 0; k < cols; ++k)
      PutElement(format, rng, options.nan_codes, c.data, 1 + r * m.row_bytes, k);
  }
  m.data = c.data.data() + 1;

  const bool e8m0 = format == WeightFormat::kMxfp4, e4m3 = format == WeightFormat::kNvfp4;
  int64_t scale_rows = 0, scale_cols = 0;
  if (format == WeightFormat::kFp8Block) {
    m.block_rows = options.block_rows;
    m.block_cols = options.block_cols;
    scale_rows = (rows + m.block_rows - 1) / m.block_rows;
    scale_cols = (cols + m.block_cols - 1) / m.block_cols;
  } else if (format == WeightFormat::kFp8Channel) {
    scale_rows = rows, scale_cols = 1;
  } else if (format == WeightFormat::kFp8Tensor) {
    scale_rows = scale_cols = 1;
  } else if (e8m0 || e4m3) {
    scale_rows = rows, scale_cols = cols / (e8m0 ? 32 : 16);
  }
  if (scale_rows == 0) return c;
  const int64_t width = e8m0 || e4m3 ? 1 : 4;
  m.scale_row_bytes = format == WeightFormat::kFp8Tensor ? 0 : scale_cols * width + 1;
  c.scales.resize(static_cast<size_t>(scale_rows * (scale_cols * width + 1) + 1));
  for (int64_t r = 0; r < scale_rows; ++r) {
    for (int64_t g = 0; g < scale_cols; ++g) {
      const int64_t at = 1 + r * m.scale_row_bytes + g * width;
      if (e8m0) {
        const int64_t code =
            Uniform(rng, options.nan_codes ? 253 : 118, options.nan_codes ? 256 : 129);
        Put(c.scales, at, static_cast<uint8_t>(code));  // 256 wraps to 0, 2^-127
      } else if (e4m3) {
        Put(c.scales, at, RandomE4M3(rng, options.nan_codes));
      } else {
        Put(c.scales, at, Normal(rng, 0.01f));
      }
    }
  }
  m.scales = c.scales.data() + 1;
  if (e4m3) m.global_scale = 0.0123f;
  return c;
}

}  // namespace quern::backend
