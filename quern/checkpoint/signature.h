// The format of a weight as the file itself shows it: dtype, shape against the logical shape, and
// companion tensors (docs/formats/signatures.md). Asks no rule; the caller compares.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "quern/checkpoint/checkpoint.h"
#include "quern/checkpoint/dialects/dialect.h"
#include "quern/numerics/stored_matrix.h"

namespace quern::checkpoint {

// A stored tensor, or the part of a fused one that belongs to one expert.
struct Part {
  const TensorInfo* tensor = nullptr;  // nullptr: not in the file
  std::string_view label;              // "weight_scale": the tensor's name within its module
  std::vector<int64_t> shape;          // of this part
  uint64_t offset = 0;                 // of its first byte in the tensor
  int64_t row_bytes = 0;               // distance between its rows; 0: they are dense

  bool there() const { return tensor != nullptr; }
  Dtype dtype() const { return tensor->dtype; }
};

// What the file holds for one weight matrix.
struct StoredParts {
  Part weight;               // "weight", "weight_packed", or a fused tensor
  Part scale;                // "weight_scale", "weight_scale_inv" ...
  Part global_scale;         // "weight_scale_2" or "weight_global_scale"
  bool packed_name = false;  // the weight is called "weight_packed"
  bool inverse_name =
      false;  // the scale is called "..._scale_inv": only block or per-tensor FP8 writes that
  bool global_divides =
      false;  // "weight_global_scale" (compressed-tensors): w = code * scale / global
};

// Part of a whole stored tensor.
Part WholePart(const TensorInfo* tensor, std::string_view label);

struct Signature {
  std::string text;   // "U8 [6144, 1024] + weight_scale U8 [6144, 64]"
  std::string error;  // not empty: no known format; says why
  Wanted format;      // `quantized` false for bf16, f16, f32
  WeightFormat stored = WeightFormat::kBf16;
};

// Recognises a [rows, cols] matrix. `wanted` settles only what the file leaves open: whether a
// single FP8 scale is that of a tensor, a channel or a block, and the size of blocks (default 128 x
// 128).
Signature ReadSignature(const StoredParts& parts, int64_t rows, int64_t cols, const Wanted& wanted);

// "BF16 [6144, 16384]".
std::string DescribePart(const Part& part);

}  // namespace quern::checkpoint
