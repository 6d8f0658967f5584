#include "quern/backend/cpu/gemm.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quern/backend/cpu/gemm.cc"
#include "hwy/foreach_target.h"  // compiles this file once per SIMD target
#include "hwy/highway.h"
#include "quern/backend/cpu/gemm_kernel-inl.h"
#include "quern/backend/cpu/store_row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quern::backend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Few rows take more panels at once, to hide the latency of their adds.
HWY_INLINE void TilePanels(const float* x, int64_t xs, int64_t rows, const float* const* panels,
                           int64_t num_panels, int64_t kc, float* c, int64_t cs) {
  int64_t p = 0;
  if (num_panels == kItemPanels && rows <= 3) {
    constexpr int kWide = kVecs == 1 ? 4 : 2;
    for (; p < num_panels; p += kWide)
      TileUpTo<3, kWide>(rows, x, xs, 1, panels + p, kc, c + p * kPanelRows, cs);
    return;
  }
  if constexpr (kVecs == 1) {
    for (; p + 2 <= num_panels; p += 2)
      TileRows<2>(x, xs, 1, rows, panels + p, kc, c + p * kPanelRows, cs);
  }
  for (; p < num_panels; ++p) TileRows<1>(x, xs, 1, rows, panels + p, kc, c + p * kPanelRows, cs);
}

// One row: weights go from memory to registers.
template <Codes kCodes>
HWY_INLINE void OneRow(const PackedMatrix& w, int64_t first, int64_t num_panels, const float* x,
                       float* c) {
  if (num_panels == kItemPanels)
    return RowTimesPanels<kCodes, kItemPanels>(w, first, 0, w.cols, x, c);
  for (int64_t p = 0; p < num_panels; ++p)
    RowTimesPanels<kCodes, 1>(w, first + p, 0, w.cols, x, c + p * kPanelRows);
}

// Up to kItemRows rows: a chunk of k at a time is decoded, and x copied beside it (its own rows lie
// a power of two apart, which would fight for the same cache sets).
template <Codes kCodes>
HWY_INLINE void ManyRows(const GemmTask& task, int64_t first, int64_t num_panels, const float* x,
                         int64_t rows, float* scratch, float* c) {
  const PackedMatrix& w = *task.w;
  float* decoded = scratch;                                     // [panels][chunk][16]
  float* xs = decoded + kItemPanels * kPanelRows * kGemmChunk;  // [rows][chunk]
  for (int64_t k = 0; k < w.cols; k += kGemmChunk) {
    const int64_t kc = HWY_MIN(kGemmChunk, w.cols - k);
    const float* panels[kItemPanels];
    for (int64_t p = 0; p < num_panels; ++p) {
      if constexpr (kCodes == Codes::kF32) {  // already what the kernel reads
        panels[p] = reinterpret_cast<const float*>(w.panel_codes(first + p)) + k * kPanelRows;
      } else {
        DecodePanel<kCodes>(w, first + p, k, kc, decoded + p * kPanelRows * kGemmChunk);
        panels[p] = decoded + p * kPanelRows * kGemmChunk;
      }
    }
    for (int64_t m = 0; m < rows; ++m) {
      std::memcpy(xs + m * kGemmChunk, x + m * task.x_stride + k,
                  static_cast<size_t>(kc) * sizeof(float));
    }
    TilePanels(xs, kGemmChunk, rows, panels, num_panels, kc, c, kItemPanels * kPanelRows);
  }
}

template <Codes kCodes>
void ItemOf(const GemmTask& task, int64_t item, float* scratch) {
  const PackedMatrix& w = *task.w;
  const int64_t first = item * kItemPanels;
  const int64_t num_panels = HWY_MIN(kItemPanels, w.panels() - first);
  const int64_t cols = HWY_MIN(num_panels * kPanelRows, w.rows - first * kPanelRows);
  constexpr int64_t kStride = kItemPanels * kPanelRows;
  float* c = scratch;  // [rows][panels][16]
  for (int64_t row = 0; row < task.rows; row += kItemRows) {
    const int64_t rows = HWY_MIN(kItemRows, task.rows - row);
    const float* x = task.x + row * task.x_stride;
    std::memset(c, 0, static_cast<size_t>(rows * kStride) * sizeof(float));
    if (rows == 1) {
      OneRow<kCodes>(w, first, num_panels, x, c);
    } else {
      ManyRows<kCodes>(task, first, num_panels, x, rows, scratch + kItemRows * kStride, c);
    }
    for (int64_t m = 0; m < rows; ++m) {
      const int64_t at = (row + m) * task.y_stride + first * kPanelRows;
      StoreRow(c + m * kStride, cols, task.y_type,
               static_cast<char*>(task.y) + at * DtypeBytes(task.y_type));
    }
  }
}

void GemmItem(const GemmTask& task, int64_t item, float* scratch) {
  switch (task.w->codes) {
    case Codes::kF32:
      return ItemOf<Codes::kF32>(task, item, scratch);
    case Codes::kBf16:
      return ItemOf<Codes::kBf16>(task, item, scratch);
    case Codes::kE4M3:
      return ItemOf<Codes::kE4M3>(task, item, scratch);
    case Codes::kE2M1:
      return ItemOf<Codes::kE2M1>(task, item, scratch);
  }
}

}  // namespace quern::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern::backend::cpu {
HWY_EXPORT(GemmItem);
void RunGemmItem(const GemmTask& task, int64_t item, float* scratch) {
  HWY_DYNAMIC_DISPATCH(GemmItem)(task, item, scratch);
}
}  // namespace quern::backend::cpu
#endif  // HWY_ONCE
