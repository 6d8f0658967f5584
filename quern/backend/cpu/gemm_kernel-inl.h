// The register-tile kernel all products use, and the decoding of packed panels. Included once per
// SIMD target.
#if defined(QUERN_BACKEND_CPU_GEMM_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUERN_BACKEND_CPU_GEMM_KERNEL_INL_H_
#undef QUERN_BACKEND_CPU_GEMM_KERNEL_INL_H_
#else
#define QUERN_BACKEND_CPU_GEMM_KERNEL_INL_H_
#endif

#include "quern/backend/cpu/packed_matrix.h"
#include "quern/backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quern::backend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of x a tile holds in registers beside one panel: 12 accumulators on AVX2, as on AVX-512.
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
  for (int m = 0; m < kRows; ++m) {
    for (int v = 0; v < kCols; ++v)
      acc[m][v] = hn::LoadU(d, c + m * cs + v * static_cast<int64_t>(kLanes));
  }
  for (int64_t k = 0; k < kc; ++k) {
    VF w[kCols];
    for (int p = 0; p < kPanels; ++p) {
      for (size_t v = 0; v < kVecs; ++v) {
        w[p * static_cast<int>(kVecs) + static_cast<int>(v)] =
            hn::Load(d, panels[p] + k * 16 + v * kLanes);
      }
    }
    for (int m = 0; m < kRows; ++m) {
      const VF xv = hn::Set(d, x[m * xm + k * xk]);
      for (int v = 0; v < kCols; ++v) acc[m][v] = Fma(xv, w[v], acc[m][v]);
    }
  }
  for (int m = 0; m < kRows; ++m) {
    for (int v = 0; v < kCols; ++v)
      hn::StoreU(acc[m][v], d, c + m * cs + v * static_cast<int64_t>(kLanes));
  }
}

// Any number of rows against one panel.
HWY_INLINE void TileRows(const float* x, int64_t xm, int64_t xk, int64_t rows, const float* panel,
                         int64_t kc, float* c, int64_t cs) {
  const float* const panels[1] = {panel};
  int64_t m = 0;
  for (; m + kMaxTileRows <= rows; m += kMaxTileRows) {
    Tile<kMaxTileRows, 1>(x + m * xm, xm, xk, panels, kc, c + m * cs, cs);
  }
  for (; m + 3 <= rows; m += 3) Tile<3, 1>(x + m * xm, xm, xk, panels, kc, c + m * cs, cs);
  for (; m < rows; ++m) Tile<1, 1>(x + m * xm, xm, xk, panels, kc, c + m * cs, cs);
}

// E4M3 magnitude and sign to f32 without subnormal arithmetic: an integer mantissa times a power of
// two.
HWY_INLINE VF DecodeE4M3(hn::Vec<DU> code) {
  const DF d;
  const DI di;
  const DU du;
  const auto exponent = hn::And(hn::ShiftRight<3>(code), hn::Set(du, 15u));
  const auto low = hn::And(code, hn::Set(du, 7u));
  const auto subnormal = hn::Eq(exponent, hn::Zero(du));
  const auto mantissa = hn::IfThenElse(subnormal, low, hn::Or(low, hn::Set(du, 8u)));
  const auto step =
      hn::IfThenElse(subnormal, hn::Set(du, 1u), exponent);  // value = mantissa * 2^(step - 10)
  const VF power = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(step, hn::Set(du, 117u))));
  const VF magnitude = hn::Mul(hn::ConvertTo(d, hn::BitCast(di, mantissa)), power);
  const auto sign = hn::ShiftLeft<24>(hn::And(code, hn::Set(du, 0x80u)));
  const auto nan = hn::Eq(hn::And(code, hn::Set(du, 0x7Fu)), hn::Set(du, 0x7Fu));
  const auto bits = hn::Or(hn::BitCast(du, magnitude), sign);
  return hn::BitCast(d, hn::IfThenElse(nan, hn::Set(du, 0x7FC00000u), bits));
}

// E2M1: magnitudes 0 .. 6 as doubled integers 0 1 2 3 4 6 8 12, halved.
HWY_INLINE VF DecodeE2M1(hn::Vec<DU> nibble) {
  const DF d;
  const DI di;
  const DU du;
  const auto m = hn::And(nibble, hn::Set(du, 7u));
  const auto small = hn::Lt(hn::BitCast(di, m), hn::Set(di, 4));
  const auto odd = hn::Add(hn::And(m, hn::Set(du, 1u)), hn::Set(du, 2u));  // 2 or 3
  const auto is67 = hn::Gt(hn::BitCast(di, m), hn::Set(di, 5));
  const auto large =
      hn::IfThenElse(hn::RebindMask(du, is67), hn::ShiftLeft<2>(odd), hn::ShiftLeft<1>(odd));
  const auto doubled = hn::IfThenElse(hn::RebindMask(du, small), m, large);
  const VF magnitude = hn::Mul(hn::ConvertTo(d, hn::BitCast(di, doubled)), hn::Set(d, 0.5f));
  const auto sign = hn::ShiftLeft<28>(hn::And(nibble, hn::Set(du, 8u)));
  return hn::BitCast(d, hn::Or(hn::BitCast(du, magnitude), sign));
}

// Scale of group g for the lanes of vector v.
HWY_INLINE VF LoadScale(Scales kind, const uint8_t* scales, int64_t g, size_t v) {
  const DF d;
  const DU du;
  if (kind == Scales::kF32)
    return hn::LoadU(d, reinterpret_cast<const float*>(scales) + g * 16 + v * kLanes);
  const hn::Rebind<uint8_t, DF> d8;
  const auto code = hn::PromoteTo(du, hn::LoadU(d8, scales + g * 16 + v * kLanes));
  // Code 0 is 2^-127, a subnormal f32; code 255 is NaN.
  const auto bits =
      hn::IfThenElse(hn::Eq(code, hn::Zero(du)), hn::Set(du, 0x00400000u), hn::ShiftLeft<23>(code));
  const auto nan = hn::Eq(code, hn::Set(du, 255u));
  return hn::BitCast(d, hn::IfThenElse(nan, hn::Set(du, 0x7FC00000u), bits));
}

HWY_INLINE hn::Vec<DU> LoadCodes8(const uint8_t* p) {
  const DU du;
  const hn::Rebind<uint8_t, DF> d8;
  return hn::PromoteTo(du, hn::LoadU(d8, p));
}

// Writes f32 [kc][16] of a panel, k from k0 (even for FP4): what DecodeRow gives for its 16 rows.
HWY_INLINE void DecodePanel(const PackedMatrix& m, int64_t panel, int64_t k0, int64_t kc,
                            float* HWY_RESTRICT out) {
  const DF d;
  const uint8_t* codes = m.panel_codes(panel);
  const uint8_t* scales = m.panel_scales(panel);
  if (m.codes == Codes::kBf16) {
    const uint16_t* p = reinterpret_cast<const uint16_t*>(codes) + k0 * 16;
    for (int64_t i = 0; i < kc * 16; i += static_cast<int64_t>(kLanes))
      hn::Store(LoadBf16(p + i), d, out + i);
    return;
  }
  if (m.codes == Codes::kF32) {
    const float* p = reinterpret_cast<const float*>(codes) + k0 * 16;
    for (int64_t i = 0; i < kc * 16; i += static_cast<int64_t>(kLanes))
      hn::Store(hn::LoadU(d, p + i), d, out + i);
    return;
  }
  for (int64_t k = k0; k < k0 + kc;) {
    const int64_t g = k / m.group;
    const int64_t end = HWY_MIN((g + 1) * m.group, k0 + kc);
    for (size_t v = 0; v < kVecs; ++v) {
      const VF scale = LoadScale(m.scales, scales, g, v);
      float* o = out + (k - k0) * 16 + v * kLanes;
      if (m.codes == Codes::kE4M3) {
        for (int64_t i = k; i < end; ++i, o += 16) {
          hn::Store(hn::Mul(DecodeE4M3(LoadCodes8(codes + i * 16 + v * kLanes)), scale), d, o);
        }
      } else {
        for (int64_t i = k; i < end; i += 2, o += 32) {
          const auto pair = LoadCodes8(codes + i / 2 * 16 + v * kLanes);
          hn::Store(hn::Mul(DecodeE2M1(pair), scale), d, o);
          if (i + 1 < end)
            hn::Store(hn::Mul(DecodeE2M1(hn::ShiftRight<4>(pair)), scale), d, o + 16);
        }
      }
    }
    k = end;
  }
}

}  // namespace quern::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
