// y = x W^T over packed panels.
#pragma once

#include "quern/backend/cpu/packed_matrix.h"

namespace quern::backend::cpu {

// One product: `rows` rows of x against panels [first_panel, first_panel + num_panels) of w.
struct GemmTask {
  const PackedMatrix* w = nullptr;
  const float* x = nullptr;  // [rows, w->cols] f32, rows x_stride apart
  int64_t x_stride = 0;
  int64_t rows = 0;
  void* y = nullptr;     // first element of y row 0 that belongs to w's row 0
  int64_t y_stride = 0;  // in elements
  Dtype y_type = Dtype::kF32;
};

// Panels handled by one work item, rows of x in one pass over them, and the part of k that stays in
// L2 while all rows pass over it: 32 KiB of decoded weights, 48 KiB of x.
inline constexpr int64_t kItemPanels = 4;
inline constexpr int64_t kItemRows = 96;
inline constexpr int64_t kGemmChunk = 128;
// Scratch floats a worker needs for RunGemmItem: results, decoded weights, x.
inline constexpr int64_t kGemmScratchFloats =
    kItemRows * kItemPanels * kPanelRows + (kItemPanels * kPanelRows + kItemRows) * kGemmChunk;

// Computes columns [item * 64, + 64) of task for all its rows. Reentrant with its own scratch
// (64-byte aligned).
void RunGemmItem(const GemmTask& task, int64_t item, float* scratch);

inline int64_t NumGemmItems(const PackedMatrix& w) {
  return (w.panels() + kItemPanels - 1) / kItemPanels;
}

}  // namespace quern::backend::cpu
