#include "quern/backend/cpu/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quern/backend/cpu/gemm.cc"
#include "hwy/foreach_target.h"  // compiles this file once per SIMD target
#include "hwy/highway.h"
#include "quern/backend/cpu/gemm_kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quern::backend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// k is walked in chunks so that a decoded chunk of four panels (64 KiB) stays in L2 while all rows
// pass over it.
inline constexpr int64_t kChunk = 256;

// Rows of x in groups that fill the registers: few rows take more panels at once to hide fma
// latency.
HWY_INLINE void TilePanels(const float* x, int64_t xs, int64_t rows, const float* const* panels,
                           int64_t num_panels, int64_t kc, float* c, int64_t cs) {
  if (num_panels == 4 && rows == 1) return Tile<1, 4>(x, xs, 1, panels, kc, c, cs);
  if (num_panels == 4 && rows <= 3) {
    for (int64_t p = 0; p < 4; p += 2) {
      if (rows == 3) {
        Tile<3, 2>(x, xs, 1, panels + p, kc, c + p * 16, cs);
      } else {
        Tile<2, 2>(x, xs, 1, panels + p, kc, c + p * 16, cs);
      }
    }
    return;
  }
  for (int64_t p = 0; p < num_panels; ++p) TileRows(x, xs, 1, rows, panels[p], kc, c + p * 16, cs);
}

// Stores n floats of one y row.
HWY_INLINE void StoreRow(const float* c, int64_t n, Dtype type, void* y) {
  const DF d;
  int64_t i = 0;
  if (type == Dtype::kF32) {
    float* out = static_cast<float*>(y);
    for (; i + static_cast<int64_t>(kLanes) <= n; i += kLanes)
      hn::StoreU(hn::LoadU(d, c + i), d, out + i);
    for (; i < n; ++i) out[i] = c[i];
    return;
  }
  uint16_t* out = static_cast<uint16_t*>(y);
  for (; i + static_cast<int64_t>(kLanes) <= n; i += kLanes)
    StoreBf16(hn::LoadU(d, c + i), out + i);
  if (i < n) {
    HWY_ALIGN float tail[16] = {};
    uint16_t bits[16] = {};
    for (int64_t j = i; j < n; ++j) tail[j - i] = c[j];
    StoreBf16(hn::Load(d, tail), bits);
    for (int64_t j = i; j < n; ++j) out[j] = bits[j - i];
  }
}

void GemmItem(const GemmTask& task, int64_t item, float* scratch) {
  const PackedMatrix& w = *task.w;
  const int64_t first = item * kItemPanels;
  const int64_t num_panels = HWY_MIN(kItemPanels, w.panels() - first);
  const int64_t cols = HWY_MIN(num_panels * kPanelRows, w.rows - first * kPanelRows);
  const int64_t cs = kItemPanels * kPanelRows;
  float* decoded = scratch;
  float* c = scratch + kItemPanels * kPanelRows * kChunk;
  for (int64_t row = 0; row < task.rows; row += kItemRows) {
    const int64_t rows = HWY_MIN(kItemRows, task.rows - row);
    const float* x = task.x + row * task.x_stride;
    for (int64_t i = 0; i < rows * cs; ++i) c[i] = 0.0f;
    for (int64_t k = 0; k < w.cols; k += kChunk) {
      const int64_t kc = HWY_MIN(kChunk, w.cols - k);
      const float* panels[kItemPanels];
      for (int64_t p = 0; p < num_panels; ++p) {
        if (w.codes == Codes::kF32) {  // already what the kernel reads
          panels[p] = reinterpret_cast<const float*>(w.panel_codes(first + p)) + k * kPanelRows;
        } else {
          DecodePanel(w, first + p, k, kc, decoded + p * kPanelRows * kChunk);
          panels[p] = decoded + p * kPanelRows * kChunk;
        }
      }
      TilePanels(x + k, task.x_stride, rows, panels, num_panels, kc, c, cs);
    }
    for (int64_t m = 0; m < rows; ++m) {
      const int64_t at = (row + m) * task.y_stride + first * kPanelRows;
      StoreRow(c + m * cs, cols, task.y_type,
               static_cast<char*>(task.y) + at * DtypeBytes(task.y_type));
    }
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
