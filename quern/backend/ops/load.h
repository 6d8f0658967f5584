// How stored matrices are loaded: the choice of a compute format, and checks before a backend
// repacks them. Shared by all backends. Checks return kInvalidArgument.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "quern/backend/weights.h"
#include "quern/base/status.h"
#include "quern/numerics/stored_matrix.h"

namespace quern::backend {

// How a matrix stored in `format` is computed with when `as` is asked for:
//   kInt8  MXFP4 keeps its codes (kMxfp4Int8); f32, f16, bf16 and FP8 become kInt8; NVFP4 is
//   kStored kFp8   f32, f16 and bf16 become kFp8; what is quantized already is kStored
ComputeFormat ComputeFormatOf(WeightFormat format, LoadAs as);
// "mxfp4 x int8", "bf16 as int8 x int8", "bf16 as fp8 x activation", "fp8_block x activation".
std::string DescribeCompute(WeightFormat format, LoadAs as);

// Root mean square error of the weights that loading makes, relative to theirs; nothing where they
// stay as stored. Reads the whole matrix.
std::optional<double> LoadError(const StoredMatrix& m, LoadAs as);

// Has elements, whole FP4 groups, and the scales its format needs.
Status ValidateStored(const StoredMatrix& m);
// At least one part, all with the same number of columns.
Status ValidateParts(std::span<const StoredMatrix> parts);
// At least one expert; each has as many parts as the first, with the same shapes.
Status ValidateExperts(std::span<const std::span<const StoredMatrix>> experts);
// Rows [first, first + count) of each of num_heads heads lie inside `stored`.
Status ValidateHeads(const StoredMatrix& stored, int64_t num_heads, int64_t head_rows,
                     int64_t first, int64_t count);

}  // namespace quern::backend
