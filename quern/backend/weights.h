// Weights after a backend has repacked them. Opaque to the model.
#pragma once

#include <cstdint>
#include <string>

namespace quern::backend {

// y = x W^T for W [rows, cols], possibly stacked from several stored matrices that share x.
class LinearWeights {
 public:
  virtual ~LinearWeights() = default;
  virtual int64_t rows() const = 0;
  virtual int64_t cols() const = 0;
  virtual int64_t bytes() const = 0;  // held in backend memory
};

// One [rows, cols] matrix per expert, all of one shape.
class ExpertWeights {
 public:
  virtual ~ExpertWeights() = default;
  virtual int64_t num_experts() const = 0;
  virtual int64_t rows() const = 0;
  virtual int64_t cols() const = 0;
  virtual int64_t bytes() const = 0;
};

// One [rows, cols] matrix per attention head: y[t, h] = x[t, h] W_h^T.
class HeadWeights {
 public:
  virtual ~HeadWeights() = default;
  virtual int64_t num_heads() const = 0;
  virtual int64_t rows() const = 0;
  virtual int64_t cols() const = 0;
  virtual int64_t bytes() const = 0;
};

// A row-major table looked up by row (token embeddings).
class TableWeights {
 public:
  virtual ~TableWeights() = default;
  virtual int64_t rows() const = 0;
  virtual int64_t cols() const = 0;
  virtual int64_t bytes() const = 0;
};

// How a backend will compute with a stored format: what `quern inspect` prints.
struct ComputeChoice {
  std::string compute_format;   // "mxfp4 x bf16 -> f32"
  std::string kernel;           // "gemm, panels of 16 rows"
  double bytes_per_weight = 0;  // in backend memory, scales included
};

}  // namespace quern::backend
