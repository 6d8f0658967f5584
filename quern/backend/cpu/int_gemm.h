// y = x W^T over integer panels.
#pragma once

#include <span>

#include "quern/backend/cpu/int_matrix.h"
#include "quern/backend/cpu/int_tiles.h"

namespace quern::backend::cpu {

// One product: some quantized tiles of x against all panels of w.
struct IntGemmTask {
  const IntMatrix* w = nullptr;
  std::span<const IntTile> tiles;
  const uint8_t* x = nullptr;  // the buffer that tiles' offsets count from
  void* y = nullptr;           // element of x's row 0 and w's row 0
  int64_t y_stride = 0;        // in elements
  Dtype y_type = Dtype::kF32;
};

// Panels handled by one work item: 209 KB of MXFP4 weights at k = 6144, microseconds of work.
inline constexpr int64_t kIntItemPanels = 4;

inline int64_t NumIntItems(const IntMatrix& w) {
  return (w.panels() + kIntItemPanels - 1) / kIntItemPanels;
}
// Bytes of scratch a worker needs for RunIntItem.
int64_t IntScratchBytes(const IntGemmTask& task);

// Computes columns [item * 64, + 64) of task for all its tiles. Reentrant with its own scratch
// (64-byte aligned).
void RunIntItem(const IntGemmTask& task, int64_t item, uint8_t* scratch);

}  // namespace quern::backend::cpu
