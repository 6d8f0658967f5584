// The register-tile kernels all products use. Included once per SIMD target.
#if defined(QUERN_BACKEND_CPU_GEMM_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUERN_BACKEND_CPU_GEMM_KERNEL_INL_H_
#undef QUERN_BACKEND_CPU_GEMM_KERNEL_INL_H_
#else
#define QUERN_BACKEND_CPU_GEMM_KERNEL_INL_H_
#endif

#include "quern/backend/cpu/decode-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quern::backend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of x in one tile. With AVX-512 a tile of 12 rows and two panels fills 24 of 32 registers,
// with AVX2 one of 6 rows and one panel (two vectors) 12 of 16.
inline constexpr int kMaxTileRows = kVecs == 1 ? 12 : 6;

// c[m][p * 16 + lane] += sum over k of x[m * xm + k * xk] * panels[p][k][lane], one fma per k, k
// ascending.
//   c rows are `cs` floats apart. Every (m, p, lane) is its own chain: tile shape cannot change its
//   bits.
template <int kRows, int kPanels>
HWY_INLINE void Tile(const float* HWY_RESTRICT x, int64_t xm, int64_t xk,
                     const float* const* panels, int64_t kc, float* HWY_RESTRICT c, int64_t cs) {
  const DF d;
  constexpr int kCols = kPanels * static_cast<int>(kVecs);
  VF acc[kRows][kCols];
  QUERN_UNROLL for (int m = 0; m < kRows; ++m) {
    QUERN_UNROLL for (int v = 0; v < kCols; ++v) acc[m][v] =
        hn::LoadU(d, c + m * cs + v * static_cast<int64_t>(kLanes));
  }
  for (int64_t k = 0; k < kc; ++k) {
    VF w[kCols];
    QUERN_UNROLL for (int p = 0; p < kPanels; ++p) {
      QUERN_UNROLL for (size_t v = 0; v < kVecs; ++v) {
        w[p * static_cast<int>(kVecs) + static_cast<int>(v)] =
            hn::Load(d, panels[p] + k * 16 + v * kLanes);
      }
    }
    QUERN_UNROLL for (int m = 0; m < kRows; ++m) {
      const VF xv = hn::Set(d, x[m * xm + k * xk]);
      QUERN_UNROLL for (int v = 0; v < kCols; ++v) acc[m][v] = Fma(xv, w[v], acc[m][v]);
    }
  }
  QUERN_UNROLL for (int m = 0; m < kRows; ++m) {
    QUERN_UNROLL for (int v = 0; v < kCols; ++v)
        hn::StoreU(acc[m][v], d, c + m * cs + v * static_cast<int64_t>(kLanes));
  }
}

// rows <= kRows.
template <int kRows, int kPanels>
HWY_INLINE void TileUpTo(int64_t rows, const float* x, int64_t xm, int64_t xk,
                         const float* const* panels, int64_t kc, float* c, int64_t cs) {
  if (rows == kRows) return Tile<kRows, kPanels>(x, xm, xk, panels, kc, c, cs);
  if constexpr (kRows > 1) TileUpTo<kRows - 1, kPanels>(rows, x, xm, xk, panels, kc, c, cs);
}

// Any number of rows, in tiles of nearly equal height: a tile of one row would wait for its adds.
template <int kPanels>
HWY_INLINE void TileRows(const float* x, int64_t xm, int64_t xk, int64_t rows,
                         const float* const* panels, int64_t kc, float* c, int64_t cs) {
  for (int64_t left = rows, n; left > 0; left -= n, x += n * xm, c += n * cs) {
    const int64_t tiles = (left + kMaxTileRows - 1) / kMaxTileRows;
    n = (left + tiles - 1) / tiles;
    TileUpTo<kMaxTileRows, kPanels>(n, x, xm, xk, panels, kc, c, cs);
  }
}

// One row of x against kPanels packed panels: c[p * 16 + lane] += sum over k in [k0, k0 + kc) of
// x[k - k0] * w. Weights are decoded in registers, so they are read once and written nowhere.
template <Codes kCodes, int kPanels>
HWY_INLINE void RowTimesPanels(const PackedMatrix& m, int64_t first_panel, int64_t k0, int64_t kc,
                               const float* HWY_RESTRICT x, float* HWY_RESTRICT c) {
  const DF d;
  constexpr int kCols = kPanels * static_cast<int>(kVecs);
  const uint8_t* codes = m.panel_codes(first_panel);
  const uint8_t* scales = m.panel_scales(first_panel);
  const int64_t code_step = m.panel_code_bytes(), scale_step = m.panel_scale_bytes();
  VF acc[kCols];
  QUERN_UNROLL for (int i = 0; i < kCols; ++i) acc[i] =
      hn::LoadU(d, c + i * static_cast<int64_t>(kLanes));
  for (int64_t k = k0; k < k0 + kc;) {
    const int64_t g = k / m.group;
    const int64_t end = HWY_MIN((g + 1) * m.group, k0 + kc);
    VF scale[kCols];
    if constexpr (kHasScales<kCodes>) {
      QUERN_UNROLL for (int i = 0; i < kCols; ++i) {
        scale[i] = LoadScale(m.scales, scales + i / static_cast<int>(kVecs) * scale_step, g,
                             static_cast<size_t>(i) % kVecs);
      }
    }
    for (; k < end; k += kCodesPerStep<kCodes>) {
      QUERN_UNROLL for (int i = 0; i < kCols; ++i) {
        const uint8_t* panel = codes + i / static_cast<int>(kVecs) * code_step;
        const auto w = LoadWeights<kCodes>(panel, k, static_cast<size_t>(i) % kVecs);
        QUERN_UNROLL for (int j = 0; j < kCodesPerStep<kCodes>; ++j) {
          const VF value = kHasScales<kCodes> ? hn::Mul(w.v[j], scale[i]) : w.v[j];
          acc[i] = Fma(hn::Set(d, x[k - k0 + j]), value, acc[i]);
        }
      }
    }
  }
  QUERN_UNROLL for (int i = 0; i < kCols; ++i)
      hn::StoreU(acc[i], d, c + i * static_cast<int64_t>(kLanes));
}

}  // namespace quern::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
