#include "quern/backend/cpu/int_gemm.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quern/backend/cpu/int_gemm.cc"
#include "hwy/foreach_target.h"  // compiles this file once per SIMD target
#include "hwy/highway.h"
#include "quern/backend/cpu/int_kernel-inl.h"
#include "quern/backend/cpu/store_row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quern::backend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One tile against one panel, to y.
template <Source kSource>
void TileToY(const IntGemmTask& task, const IntTile& tile, int64_t panel, const uint8_t* w) {
  HWY_ALIGN float c[kIntTileRows * kPanelRows];
  const bool fetch = kSource != Source::kDecoded && &tile == &task.tiles.front();
  IntTimesPanelUpTo<kSource, kIntTileRows>(tile.rows, w, task.x + tile.offset, task.w->groups(),
                                           fetch, c);
  const int64_t column = panel * kPanelRows, cols = HWY_MIN(kPanelRows, task.w->rows - column);
  for (int64_t m = 0; m < tile.rows; ++m) {
    const int64_t at = (tile.first_row + m) * task.y_stride + column;
    StoreRow(c + m * kPanelRows, cols, task.y_type,
             static_cast<char*>(task.y) + at * DtypeBytes(task.y_type));
  }
}

// Weights as packed: from memory for the first tile, from the L2 cache for the others.
template <Source kSource>
HWY_INLINE void PackedItem(const IntGemmTask& task, int64_t first, int64_t end) {
  for (const IntTile& tile : task.tiles) {
    for (int64_t p = first; p < end; ++p) TileToY<kSource>(task, tile, p, task.w->panel(p));
  }
}

void IntItem(const IntGemmTask& task, int64_t item, uint8_t* scratch) {
  const IntMatrix& w = *task.w;
  const int64_t first = item * kIntItemPanels;
  const int64_t end = HWY_MIN(first + kIntItemPanels, w.panels());
  if (w.codes == IntCodes::kInt8) return PackedItem<Source::kInt8>(task, first, end);
  if (QUERN_DOT_VNNI || task.tiles.size() == 1) return PackedItem<Source::kE2M1>(task, first, end);
  // Several tiles: decode once, a panel at a time.
  for (int64_t p = first; p < end; ++p) {
    DecodeInts(w.panel(p), w.groups(), scratch);
    for (const IntTile& tile : task.tiles) TileToY<Source::kDecoded>(task, tile, p, scratch);
  }
}

}  // namespace quern::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern::backend::cpu {
HWY_EXPORT(IntItem);

int64_t IntScratchBytes(const IntGemmTask& task) {
  if (task.w->codes != IntCodes::kE2M1 || task.tiles.size() <= 1) return 0;
  return (task.w->groups() + kScaleBlock - 1) / kScaleBlock * kScaleBlock * (512 + 64);
}

void RunIntItem(const IntGemmTask& task, int64_t item, uint8_t* scratch) {
  HWY_DYNAMIC_DISPATCH(IntItem)(task, item, scratch);
}
}  // namespace quern::backend::cpu
#endif  // HWY_ONCE
