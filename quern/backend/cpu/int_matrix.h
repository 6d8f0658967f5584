// Weights for integer products, in the order the kernels read them.
//
// Rows are dealt into panels of 16. A group is 32 k of a panel: eight vectors of [16 rows][4 k]
// bytes, the operand of instructions that add four products per 32-bit lane. Codes are unsigned
// (the kernels take the offset back through the sum of the activations):
//   kInt8   code + 128, 512 bytes a group: vector j holds k = 4 j .. 4 j + 3
//   kE2M1   the 4-bit codes as stored, 256 bytes a group: block t of 64 bytes holds vector 2 t in
//           its low nibbles and 2 t + 1 in its high ones
// Four groups of codes are followed by their scales, [4][16], so that a panel is one stream of
// whole cache lines; the last such block of a panel may hold fewer groups of codes.
//   scales  kInt8 bf16, kE2M1 E8M0
// Rows and k past the end are zero bytes; what comes of them is not used.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "quern/backend/backend.h"
#include "quern/backend/cpu/packed_matrix.h"
#include "quern/base/thread_pool.h"

namespace quern::backend::cpu {

inline constexpr int64_t kIntGroup = 32;
inline constexpr int64_t kScaleBlock = 4;  // groups whose scales stand together

enum class IntCodes : uint8_t { kE2M1, kInt8 };

// Bytes of a group's codes, and of its 16 scales.
constexpr int64_t GroupCodeBytes(IntCodes codes) { return codes == IntCodes::kE2M1 ? 256 : 512; }
constexpr int64_t GroupScaleBytes(IntCodes codes) { return codes == IntCodes::kE2M1 ? 16 : 32; }

struct IntMatrix {
  IntCodes codes = IntCodes::kInt8;
  int64_t rows = 0, cols = 0;
  std::unique_ptr<Buffer> memory;

  int64_t panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
  int64_t groups() const { return (cols + kIntGroup - 1) / kIntGroup; }
  int64_t panel_bytes() const {
    const int64_t blocks = (groups() + kScaleBlock - 1) / kScaleBlock;
    return groups() * GroupCodeBytes(codes) + blocks * kScaleBlock * GroupScaleBytes(codes);
  }
  const uint8_t* panel(int64_t p) const {
    return static_cast<const uint8_t*>(memory->data()) + p * panel_bytes();
  }
  int64_t bytes() const { return panels() * panel_bytes(); }
};

// MXFP4 keeps its codes; every other format is decoded and encoded as numerics/int8_group.h says.
// Panels in parallel, one row decoded at a time. kResourceExhausted when memory runs out.
Result<IntMatrix> PackInts(const StoredMatrix& stored, ThreadPool& pool);

}  // namespace quern::backend::cpu
