#include "quern/backend/ops/load.h"

#include <cmath>
#include <vector>

#include "quern/numerics/fp8_group.h"
#include "quern/numerics/int8_group.h"

namespace quern::backend {
namespace {

std::string Describe(const StoredMatrix& m) {
  return fmt::format("{} [{}, {}]", WeightFormatName(m.format), m.rows, m.cols);
}

bool IsUnquantized(WeightFormat format) {
  return format == WeightFormat::kF32 || format == WeightFormat::kF16 ||
         format == WeightFormat::kBf16;
}

}  // namespace

ComputeFormat ComputeFormatOf(WeightFormat format, LoadAs as) {
  if (as == LoadAs::kInt8 && format == WeightFormat::kMxfp4) return ComputeFormat::kMxfp4Int8;
  if (as == LoadAs::kInt8 && format != WeightFormat::kNvfp4) return ComputeFormat::kInt8;
  if (as == LoadAs::kFp8 && IsUnquantized(format)) return ComputeFormat::kFp8;
  return ComputeFormat::kStored;
}

std::string DescribeCompute(WeightFormat format, LoadAs as) {
  const std::string_view name = WeightFormatName(format);
  switch (ComputeFormatOf(format, as)) {
    case ComputeFormat::kMxfp4Int8:
      return fmt::format("{} x int8", name);
    case ComputeFormat::kInt8:
      return fmt::format("{} as int8 x int8", name);
    case ComputeFormat::kFp8:
      return fmt::format("{} as fp8 x activation", name);
    case ComputeFormat::kStored:
      break;
  }
  return fmt::format("{} x activation", name);
}

std::optional<double> LoadError(const StoredMatrix& m, LoadAs as) {
  const ComputeFormat format = ComputeFormatOf(m.format, as);
  if (format != ComputeFormat::kInt8 && format != ComputeFormat::kFp8) return std::nullopt;
  std::vector<float> row(static_cast<size_t>(m.cols)), made(row.size());
  std::vector<int8_t> ints(row.size());
  std::vector<uint16_t> int_scales((row.size() + kInt8Group - 1) / kInt8Group);
  std::vector<uint8_t> codes(row.size());
  std::vector<float> scales((row.size() + kFp8Group - 1) / kFp8Group);
  double error = 0, square = 0;
  for (int64_t r = 0; r < m.rows; ++r) {
    DecodeRow(m, r, row.data());
    if (format == ComputeFormat::kInt8) {
      EncodeInt8Row(row.data(), m.cols, ints.data(), int_scales.data());
      DecodeInt8Row(ints.data(), int_scales.data(), m.cols, made.data());
    } else {
      EncodeFp8Row(row.data(), m.cols, codes.data(), scales.data());
      DecodeFp8Row(codes.data(), scales.data(), m.cols, made.data());
    }
    for (size_t k = 0; k < row.size(); ++k) {
      const double d = static_cast<double>(made[k]) - static_cast<double>(row[k]);
      error += d * d;
      square += static_cast<double>(row[k]) * static_cast<double>(row[k]);
    }
  }
  return square > 0 ? std::sqrt(error / square) : 0.0;
}

Status ValidateStored(const StoredMatrix& m) {
  if (m.rows < 1 || m.cols < 1 || m.data == nullptr) {
    return InvalidArgument("a {} matrix has no elements", Describe(m));
  }
  if (!IsUnquantized(m.format) && m.scales == nullptr) {
    return InvalidArgument("a {} matrix comes without scales", Describe(m));
  }
  if (m.format == WeightFormat::kFp8Block && (m.block_rows < 1 || m.block_cols < 1)) {
    return InvalidArgument("a {} matrix has blocks of {} x {}, want at least 1 x 1", Describe(m),
                           m.block_rows, m.block_cols);
  }
  const bool fp4 = m.format == WeightFormat::kMxfp4 || m.format == WeightFormat::kNvfp4;
  if (fp4 && m.cols % ScaleGroup(m) != 0) {
    return InvalidArgument("a {} matrix has {} columns, want a multiple of {}", Describe(m), m.cols,
                           ScaleGroup(m));
  }
  return OkStatus();
}

Status ValidateParts(std::span<const StoredMatrix> parts) {
  if (parts.empty()) return InvalidArgument("no matrices to load");
  for (const StoredMatrix& part : parts) {
    QUERN_TRY(ValidateStored(part));
    if (part.cols != parts.front().cols) {
      return InvalidArgument("stacked matrices share their input: {} has {} columns, the first {}",
                             Describe(part), part.cols, parts.front().cols);
    }
  }
  return OkStatus();
}

Status ValidateExperts(std::span<const std::span<const StoredMatrix>> experts) {
  if (experts.empty()) return InvalidArgument("no experts to load");
  const std::span<const StoredMatrix> first = experts.front();
  for (size_t e = 0; e < experts.size(); ++e) {
    QUERN_TRY(ValidateParts(experts[e]));
    bool alike = experts[e].size() == first.size();
    for (size_t i = 0; alike && i < first.size(); ++i) {
      alike = experts[e][i].rows == first[i].rows && experts[e][i].cols == first[i].cols;
    }
    if (!alike) return InvalidArgument("expert {} has other shapes than expert 0", e);
  }
  return OkStatus();
}

Status ValidateHeads(const StoredMatrix& stored, int64_t num_heads, int64_t head_rows,
                     int64_t first, int64_t count) {
  QUERN_TRY(ValidateStored(stored));
  if (num_heads >= 1 && head_rows >= 1 && first >= 0 && count >= 1 && first <= head_rows &&
      count <= head_rows - first && stored.rows / num_heads == head_rows &&
      stored.rows % num_heads == 0) {
    return OkStatus();
  }
  return InvalidArgument("rows [{}, +{}) of {} heads of {} rows do not fit a {} matrix", first,
                         count, num_heads, head_rows, Describe(stored));
}

}  // namespace quern::backend
