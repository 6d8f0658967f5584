// The weight handles of the CPU backend.
#pragma once

#include <utility>
#include <variant>
#include <vector>

#include "quern/backend/cpu/int_matrix.h"
#include "quern/backend/cpu/packed_matrix.h"
#include "quern/backend/weights.h"

namespace quern::backend::cpu {

// One matrix, packed for products in floating point or in integers.
class CpuMatrix {
 public:
  CpuMatrix(PackedMatrix m) : m_(std::move(m)) {}  // NOLINT: implicit by design
  CpuMatrix(IntMatrix m) : m_(std::move(m)) {}     // NOLINT: implicit by design

  // Exactly one of them is not null.
  const PackedMatrix* packed() const { return std::get_if<PackedMatrix>(&m_); }
  const IntMatrix* ints() const { return std::get_if<IntMatrix>(&m_); }
  int64_t rows() const {
    return std::visit([](const auto& m) { return m.rows; }, m_);
  }
  int64_t cols() const {
    return std::visit([](const auto& m) { return m.cols; }, m_);
  }
  int64_t bytes() const {
    return std::visit([](const auto& m) { return m.bytes(); }, m_);
  }

 private:
  std::variant<PackedMatrix, IntMatrix> m_;
};

template <typename Matrix>
int64_t TotalBytes(const std::vector<Matrix>& items) {
  int64_t sum = 0;
  for (const Matrix& m : items) sum += m.bytes();
  return sum;
}

// Parts stacked along rows; each keeps its own format.
struct CpuLinear : LinearWeights {
  std::vector<CpuMatrix> parts;
  int64_t rows() const override {
    int64_t n = 0;
    for (const CpuMatrix& p : parts) n += p.rows();
    return n;
  }
  int64_t cols() const override { return parts.front().cols(); }
  int64_t bytes() const override { return TotalBytes(parts); }
};

// parts[e * parts_per_expert + i]: part i of expert e.
struct CpuExperts : ExpertWeights {
  std::vector<CpuMatrix> parts;
  int64_t parts_per_expert = 1;
  int64_t num_experts() const override {
    return static_cast<int64_t>(parts.size()) / parts_per_expert;
  }
  int64_t rows() const override {
    int64_t n = 0;
    for (int64_t i = 0; i < parts_per_expert; ++i) n += parts[static_cast<size_t>(i)].rows();
    return n;
  }
  int64_t cols() const override { return parts.front().cols(); }
  int64_t bytes() const override { return TotalBytes(parts); }
};

struct CpuHeads : HeadWeights {
  std::vector<PackedMatrix> heads;
  int64_t num_heads() const override { return static_cast<int64_t>(heads.size()); }
  int64_t rows() const override { return heads.front().rows; }
  int64_t cols() const override { return heads.front().cols; }
  int64_t bytes() const override { return TotalBytes(heads); }
};

// Rows as stored (bf16 or f32), decoded when looked up.
struct CpuTable : TableWeights {
  StoredMatrix stored;  // views `codes` and `scale_bytes`
  std::unique_ptr<Buffer> codes, scale_bytes;
  int64_t rows() const override { return stored.rows; }
  int64_t cols() const override { return stored.cols; }
  int64_t bytes() const override {
    return codes->bytes() + (scale_bytes ? scale_bytes->bytes() : 0);
  }
};

}  // namespace quern::backend::cpu
