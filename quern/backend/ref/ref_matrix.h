// The reference's weights: one matrix in each compute format, and its product with one row.
#pragma once

#include <cstdint>
#include <vector>

#include "quern/backend/backend.h"

namespace quern::backend::ref {

// Integer codes and the f32 scales of their groups of 32 along a row.
struct Int8Rows {
  int64_t rows = 0, cols = 0;
  std::vector<int8_t> codes;  // [rows, cols]
  std::vector<float> scales;  // [rows, ceil(cols / 32)]

  int64_t groups() const { return (cols + 31) / 32; }
};

// Activations [rows, n] in f32 or bf16, quantized as ops/linear.h says.
Int8Rows QuantizeActivations(const Tensor& x);

class RefMatrix {
 public:
  RefMatrix(const StoredMatrix& m, LoadAs as);
  // y[r] of one row of activations, not yet rounded to y's type. `x` holds f32 or bf16; `quantized`
  // is row `row` of the same activations.
  float Dot(int64_t r, Dtype x_type, const void* x, const Int8Rows& quantized, int64_t row) const;

  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  int64_t bytes() const;

 private:
  ComputeFormat format_;
  int64_t rows_, cols_;
  std::vector<float> values_;  // kStored, kFp8: decoded
  Int8Rows ints_;              // kInt8, kMxfp4Int8
};

}  // namespace quern::backend::ref
