#include "quern/backend/ref/ref_matrix.h"

#include <cmath>

#include "quern/backend/host/host_memory.h"
#include "quern/backend/ops/load.h"
#include "quern/numerics/bf16.h"
#include "quern/numerics/e2m1.h"
#include "quern/numerics/fp8_group.h"
#include "quern/numerics/int8_group.h"

namespace quern::backend::ref {
namespace {

// A decoded row, by way of E4M3.
void ThroughFp8(float* row, int64_t cols) {
  std::vector<uint8_t> codes(static_cast<size_t>(cols));
  std::vector<float> scales(static_cast<size_t>((cols + kFp8Group - 1) / kFp8Group));
  EncodeFp8Row(row, cols, codes.data(), scales.data());
  DecodeFp8Row(codes.data(), scales.data(), cols, row);
}

void AppendInt8(const float* row, Int8Rows& out) {
  std::vector<int8_t> codes(static_cast<size_t>(out.cols));
  std::vector<uint16_t> scales(static_cast<size_t>(out.groups()));
  EncodeInt8Row(row, out.cols, codes.data(), scales.data());
  out.codes.insert(out.codes.end(), codes.begin(), codes.end());
  for (uint16_t s : scales) out.scales.push_back(Bf16ToF32(s));
}

void AppendMxfp4(const StoredMatrix& m, int64_t r, Int8Rows& out) {
  const auto* row = reinterpret_cast<const uint8_t*>(m.data + r * m.row_bytes);
  for (int64_t k = 0; k < m.cols; ++k) {
    const float value = E2M1ToF32((row[k / 2] >> (k % 2 * 4)) & 15);
    out.codes.push_back(static_cast<int8_t>(2.0f * value));
  }
  for (int64_t k = 0; k < m.cols; k += kInt8Group) out.scales.push_back(ScaleAt(m, r, k));
}

}  // namespace

Int8Rows QuantizeActivations(const Tensor& x) {
  Int8Rows q;
  q.rows = x.dim(0);
  q.cols = x.dim(1);
  q.codes.resize(static_cast<size_t>(q.rows * q.cols));
  std::vector<float> row(static_cast<size_t>(q.cols));
  for (int64_t t = 0; t < q.rows; ++t) {
    for (int64_t k = 0; k < q.cols; ++k) {
      row[static_cast<size_t>(k)] = host::LoadF32(x.dtype, host::RowVoid(x, t), k);
    }
    for (int64_t k = 0; k < q.cols; k += kInt8Group) {
      q.scales.push_back(QuantizeInt8Group(row.data() + k, std::min(kInt8Group, q.cols - k), false,
                                           q.codes.data() + t * q.cols + k));
    }
  }
  return q;
}

RefMatrix::RefMatrix(const StoredMatrix& m, LoadAs as)
    : format_(ComputeFormatOf(m.format, as)), rows_(m.rows), cols_(m.cols) {
  ints_.rows = rows_;
  ints_.cols = cols_;
  std::vector<float> row(static_cast<size_t>(cols_));
  for (int64_t r = 0; r < rows_; ++r) {
    if (format_ == ComputeFormat::kMxfp4Int8) {
      AppendMxfp4(m, r, ints_);
      continue;
    }
    DecodeRow(m, r, row.data());
    if (format_ == ComputeFormat::kInt8) {
      AppendInt8(row.data(), ints_);
      continue;
    }
    if (format_ == ComputeFormat::kFp8) ThroughFp8(row.data(), cols_);
    values_.insert(values_.end(), row.begin(), row.end());
  }
}

float RefMatrix::Dot(int64_t r, Dtype x_type, const void* x, const Int8Rows& quantized,
                     int64_t row) const {
  float acc = 0.0f;
  if (format_ == ComputeFormat::kStored || format_ == ComputeFormat::kFp8) {
    const float* w = values_.data() + r * cols_;
    for (int64_t k = 0; k < cols_; ++k) acc = std::fma(host::LoadF32(x_type, x, k), w[k], acc);
    return acc;
  }
  const int8_t* w = ints_.codes.data() + r * cols_;
  const int8_t* q = quantized.codes.data() + row * cols_;
  const float* w_scales = ints_.scales.data() + r * ints_.groups();
  const float* q_scales = quantized.scales.data() + row * quantized.groups();
  for (int64_t g = 0; g < ints_.groups(); ++g) {
    int32_t dot = 0;
    const int64_t end = std::min((g + 1) * kInt8Group, cols_);
    for (int64_t k = g * kInt8Group; k < end; ++k) dot += int32_t{q[k]} * int32_t{w[k]};
    const float scale = q_scales[g] * w_scales[g];
    acc = std::fma(static_cast<float>(dot), scale, acc);
  }
  return format_ == ComputeFormat::kMxfp4Int8 ? 0.5f * acc : acc;
}

int64_t RefMatrix::bytes() const {
  return static_cast<int64_t>((values_.size() + ints_.scales.size()) * sizeof(float) +
                              ints_.codes.size());
}

}  // namespace quern::backend::ref
