// Checks of stored matrices before a backend repacks them, shared by all backends. All return
// kInvalidArgument.
#pragma once

#include <span>

#include "quern/base/status.h"
#include "quern/numerics/stored_matrix.h"

namespace quern::backend {

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
