#include "quern/checkpoint/precision_plan_scales.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "quern/numerics/bf16.h"
#include "quern/numerics/e8m0.h"
#include "quern/numerics/f16.h"

namespace quern::checkpoint {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

const std::byte* Data(const Checkpoint& checkpoint, const Part& part) {
  return checkpoint.Bytes(*part.tensor).data() + part.offset;
}

float LoadF32(const std::byte* bytes) {
  float value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// One number of a type that f32 holds exactly.
float LoadAsF32(Dtype dtype, const std::byte* bytes) {
  uint16_t half;
  switch (dtype) {
    case Dtype::kBf16:
      std::memcpy(&half, bytes, sizeof(half));
      return Bf16ToF32(half);
    case Dtype::kF16:
      std::memcpy(&half, bytes, sizeof(half));
      return F16ToF32(half);
    case Dtype::kF8E8M0:
      return E8M0ToF32(static_cast<uint8_t>(*bytes));
    default:
      return LoadF32(bytes);
  }
}

// Rows and columns of scales as StoredMatrix counts them.
void ScaleGrid(const StoredMatrix& m, int64_t& rows, int64_t& cols) {
  switch (m.format) {
    case WeightFormat::kFp8Block:
      rows = CeilDiv(m.rows, m.block_rows);
      cols = CeilDiv(m.cols, m.block_cols);
      return;
    case WeightFormat::kFp8Channel:
      rows = m.rows;
      cols = 1;
      return;
    case WeightFormat::kFp8Tensor:
      rows = cols = 1;
      return;
    case WeightFormat::kMxfp4:
      rows = m.rows;
      cols = m.cols / 32;
      return;
    case WeightFormat::kNvfp4:
      rows = m.rows;
      cols = m.cols / 16;
      return;
    case WeightFormat::kF32:
    case WeightFormat::kF16:
    case WeightFormat::kBf16:
      rows = cols = 0;
      return;
  }
}

bool IsFp8(WeightFormat format) {
  return format == WeightFormat::kFp8Block || format == WeightFormat::kFp8Channel ||
         format == WeightFormat::kFp8Tensor;
}

// The first NaN of a row of E4M3 codes, -1 when there is none. The common case is one pass without
// branches: a large checkpoint has tens of gigabytes of these.
int64_t FindE4M3Nan(const std::byte* row, int64_t n) {
  const auto is_nan = [](std::byte code) { return (static_cast<uint8_t>(code) & 0x7F) == 0x7F; };
  bool any = false;
  for (int64_t i = 0; i < n; ++i) any |= is_nan(row[i]);
  if (!any) return -1;
  int64_t i = 0;
  while (!is_nan(row[i])) ++i;
  return i;
}

void ConvertScales(const Checkpoint& checkpoint, const Part& scale, StoredMatrix& m,
                   std::vector<std::unique_ptr<float[]>>& converted) {
  int64_t rows = 0, cols = 0;
  ScaleGrid(m, rows, cols);
  const int64_t item = DtypeBytes(scale.dtype());
  const int64_t row_bytes = scale.row_bytes > 0 ? scale.row_bytes : cols * item;
  auto out = std::make_unique<float[]>(static_cast<size_t>(rows * cols));
  const std::byte* in = Data(checkpoint, scale);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      out[static_cast<size_t>(r * cols + c)] =
          LoadAsF32(scale.dtype(), in + r * row_bytes + c * item);
    }
  }
  m.scales = reinterpret_cast<const std::byte*>(out.get());
  m.scale_row_bytes = m.format == WeightFormat::kFp8Tensor ? 0 : cols * 4;
  converted.push_back(std::move(out));
}

}  // namespace

StoredMatrix MakeMatrix(const Checkpoint& checkpoint, const StoredParts& parts,
                        const Signature& signature, int64_t rows, int64_t cols, bool read_scales,
                        std::vector<std::unique_ptr<float[]>>& converted) {
  StoredMatrix m;
  m.format = signature.stored;
  m.rows = rows;
  m.cols = cols;
  m.block_rows = signature.format.block_rows;
  m.block_cols = signature.format.block_cols;
  m.data = Data(checkpoint, parts.weight);
  m.row_bytes =
      parts.weight.row_bytes > 0 ? parts.weight.row_bytes : PackedRowBytes(m.format, cols);
  if (!signature.format.quantized) return m;
  if (IsFp8(m.format) && parts.scale.dtype() != Dtype::kF32) {
    if (read_scales) ConvertScales(checkpoint, parts.scale, m, converted);
    return m;
  }
  int64_t scale_rows = 0, scale_cols = 0;
  ScaleGrid(m, scale_rows, scale_cols);
  m.scales = Data(checkpoint, parts.scale);
  m.scale_row_bytes = parts.scale.row_bytes > 0 ? parts.scale.row_bytes
                                                : scale_cols * DtypeBytes(parts.scale.dtype());
  if (m.format == WeightFormat::kFp8Tensor) m.scale_row_bytes = 0;
  if (m.format == WeightFormat::kNvfp4 && read_scales) {
    const float global = LoadF32(Data(checkpoint, parts.global_scale));
    m.global_scale = parts.global_divides ? 1.0f / global : global;
  }
  return m;
}

uint64_t StoredBytes(const StoredMatrix& m, const StoredParts& parts) {
  uint64_t bytes = static_cast<uint64_t>(m.rows * PackedRowBytes(m.format, m.cols));
  if (parts.scale.there()) {
    int64_t rows = 0, cols = 0;
    ScaleGrid(m, rows, cols);
    bytes += static_cast<uint64_t>(rows * cols * DtypeBytes(parts.scale.dtype()));
  }
  if (parts.global_scale.there()) bytes += sizeof(float);
  return bytes;
}

BadScale FindBadScale(const StoredMatrix& m) {
  if (m.format == WeightFormat::kNvfp4 && (!std::isfinite(m.global_scale) || m.global_scale == 0)) {
    return {fmt::format("the global scale comes to {}", m.global_scale), true};
  }
  int64_t rows = 0, cols = 0;
  ScaleGrid(m, rows, cols);
  if (m.scales == nullptr) return {};
  for (int64_t r = 0; r < rows; ++r) {
    const std::byte* row = m.scales + r * m.scale_row_bytes;
    if (m.format == WeightFormat::kMxfp4) {
      const void* bad = std::memchr(row, 0xFF, static_cast<size_t>(cols));
      if (bad == nullptr) continue;
      return {fmt::format("E8M0 scale [{}, {}] is 0xFF (NaN)", r,
                          static_cast<const std::byte*>(bad) - row)};
    }
    if (m.format == WeightFormat::kNvfp4) {
      const int64_t bad = FindE4M3Nan(row, cols);
      if (bad < 0) continue;
      return {fmt::format("E4M3 scale [{}, {}] is NaN", r, bad)};
    }
    for (int64_t c = 0; c < cols; ++c) {
      const float scale = LoadF32(row + c * 4);
      if (!std::isfinite(scale)) return {fmt::format("scale [{}, {}] is {}", r, c, scale)};
    }
  }
  return {};
}

}  // namespace quern::checkpoint
