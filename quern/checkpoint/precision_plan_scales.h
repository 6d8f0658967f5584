// Scales that must be looked at before a weight may be used.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "quern/checkpoint/checkpoint.h"
#include "quern/checkpoint/signature.h"
#include "quern/numerics/stored_matrix.h"

namespace quern::checkpoint {

// A view of the weight's bytes in `checkpoint`, as `signature` says. With `read_scales`, NVFP4's
// global scale is read and FP8 scales that are not f32 are converted into a new element of
// `converted`; without, those are left out.
StoredMatrix MakeMatrix(const Checkpoint& checkpoint, const StoredParts& parts,
                        const Signature& signature, int64_t rows, int64_t cols, bool read_scales,
                        std::vector<std::unique_ptr<float[]>>& converted);

// Bytes of codes and scales in the file that belong to it.
uint64_t StoredBytes(const StoredMatrix& matrix, const StoredParts& parts);

struct BadScale {
  std::string what;        // empty: all scales are numbers
  bool in_global = false;  // it is the global scale
};

// Reads every scale of `matrix` up to the first bad one: an E8M0 scale of 0xFF, an E4M3 scale that
// is NaN, an f32 or global scale that is not finite, a global scale of zero.
BadScale FindBadScale(const StoredMatrix& matrix);

}  // namespace quern::checkpoint
