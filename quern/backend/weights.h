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

// What the model asks for when it loads a matrix.
enum class LoadAs : uint8_t {
  kStored,  // weights as the checkpoint has them, activations in their own type
  kInt8,    // products of integers where the format allows it
  kFp8,     // unquantized weights in 8 bits, activations in their own type
};

// What a matrix's products are then, to the bit: ops/linear.h has the formulas, ops/load.h
// ComputeFormatOf the choice, docs/formats/compute.md the errors.
enum class ComputeFormat : uint8_t {
  kStored,     // decoded weights times activations
  kMxfp4Int8,  // MXFP4 codes as stored times int8 activations
  kInt8,       // weights made int8 in groups of 32 times int8 activations
  kFp8,        // weights made E4M3 with a scale per 128 along a row, then as kStored
};

// How a backend will compute with a stored format: what `quern inspect` prints.
struct ComputeChoice {
  std::string compute_format;   // "mxfp4 x int8"
  std::string kernel;           // "gemm, panels of 16 rows"
  double bytes_per_weight = 0;  // in backend memory, scales included
};

}  // namespace quern::backend
