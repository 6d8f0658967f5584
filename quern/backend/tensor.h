// Views of device memory.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "quern/base/check.h"
#include "quern/numerics/dtype.h"

namespace quern::backend {

// A view: element type, shape, strides, first element. Owns nothing; the Buffer it points into must
// outlive it. The last dimension is contiguous. `data` may be device memory: only backends read
// through it.
struct Tensor {
  static constexpr int kMaxRank = 4;

  Dtype dtype = Dtype::kF32;
  int rank = 0;
  std::array<int64_t, kMaxRank> dims{};
  std::array<int64_t, kMaxRank> strides{};  // in elements
  void* data = nullptr;

  Tensor() = default;
  // Contiguous, slowest dimension first.
  Tensor(Dtype type, std::initializer_list<int64_t> shape, void* first) : dtype(type), data(first) {
    QUERN_CHECK(shape.size() <= kMaxRank);
    for (int64_t d : shape) dims[static_cast<size_t>(rank++)] = d;
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; --i) {
      strides[static_cast<size_t>(i)] = stride;
      stride *= dims[static_cast<size_t>(i)];
    }
  }

  int64_t dim(int i) const { return dims[static_cast<size_t>(i < 0 ? rank + i : i)]; }
  int64_t stride(int i) const { return strides[static_cast<size_t>(i < 0 ? rank + i : i)]; }
  int64_t num_elements() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dim(i);
    return n;
  }
  int64_t bytes() const { return num_elements() * DtypeBytes(dtype); }
  bool is_contiguous() const {
    int64_t want = 1;
    for (int i = rank - 1; i >= 0; --i) {
      if (dim(i) != 1 && stride(i) != want) return false;
      want *= dim(i);
    }
    return true;
  }

  // [.., begin : begin + count] of the last dimension.
  Tensor Columns(int64_t begin, int64_t count) const {
    QUERN_CHECK(begin >= 0 && count >= 0 && begin + count <= dim(-1), "[{}, +{}) of {}", begin,
                count, dim(-1));
    Tensor t = *this;
    t.dims[static_cast<size_t>(rank - 1)] = count;
    t.data = static_cast<char*>(data) + begin * DtypeBytes(dtype);
    return t;
  }
  // [begin : begin + count, ..] of the first dimension.
  Tensor Rows(int64_t begin, int64_t count) const {
    QUERN_CHECK(begin >= 0 && count >= 0 && begin + count <= dim(0), "[{}, +{}) of {}", begin,
                count, dim(0));
    Tensor t = *this;
    t.dims[0] = count;
    t.data = static_cast<char*>(data) + begin * stride(0) * DtypeBytes(dtype);
    return t;
  }
  // [rows, a * b] seen as [rows, a, b], for a last dimension that holds a heads of b.
  Tensor SplitLast(int64_t a, int64_t b) const {
    QUERN_CHECK(rank < kMaxRank && dim(-1) == a * b, "{} is not {} x {}", dim(-1), a, b);
    Tensor t = *this;
    t.rank = rank + 1;
    t.dims[static_cast<size_t>(rank - 1)] = a;
    t.dims[static_cast<size_t>(rank)] = b;
    t.strides[static_cast<size_t>(rank - 1)] = b;
    t.strides[static_cast<size_t>(rank)] = 1;
    return t;
  }
};

}  // namespace quern::backend
