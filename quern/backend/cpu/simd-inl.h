// Per-target helpers shared by the CPU kernels. Included once per SIMD target; no include guard of
// the usual kind.
#if defined(QUERN_BACKEND_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUERN_BACKEND_CPU_SIMD_INL_H_
#undef QUERN_BACKEND_CPU_SIMD_INL_H_
#else
#define QUERN_BACKEND_CPU_SIMD_INL_H_
#endif

#include <cmath>
#include <cstdint>

#include "hwy/highway.h"
#include "quern/backend/math.h"

#undef QUERN_UNROLL
// Loops over registers: without it -O2 keeps arrays of vectors in memory.
#if defined(__clang__)
#define QUERN_UNROLL _Pragma("clang loop unroll(full)")
#else
#define QUERN_UNROLL _Pragma("GCC unroll 64")
#endif

HWY_BEFORE_NAMESPACE();
namespace quern::backend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Up to 16 lanes: a panel is one vector with AVX-512, two with AVX2, four with NEON or SSE.
using DF = hn::CappedTag<float, 16>;
using VF = hn::Vec<DF>;
using DI = hn::RebindToSigned<DF>;
using DU = hn::RebindToUnsigned<DF>;
HWY_INLINE constexpr size_t NumLanes() { return HWY_MIN(HWY_LANES(float), 16); }
inline constexpr size_t kLanes = NumLanes();
inline constexpr size_t kVecs = 16 / kLanes;  // vectors per panel

// a * b + c with one rounding, on every target: results are defined by fused multiply-adds.
HWY_INLINE VF Fma(VF a, VF b, VF c) {
#if HWY_NATIVE_FMA
  return hn::MulAdd(a, b, c);
#else
  const DF d;
  HWY_ALIGN float x[kLanes], y[kLanes], z[kLanes];
  hn::Store(a, d, x);
  hn::Store(b, d, y);
  hn::Store(c, d, z);
  for (size_t i = 0; i < kLanes; ++i) z[i] = std::fma(x[i], y[i], z[i]);
  return hn::Load(d, z);
#endif
}

// math.h Exp, lane by lane.
HWY_INLINE VF ExpVec(VF x) {
  const DF d;
  const DI di;
  const VF clamped = hn::IfThenElse(hn::Gt(x, hn::Set(d, kExpHigh)), hn::Set(d, kExpHigh), x);
  const auto in_range = hn::Ge(x, hn::Set(d, kExpLow));
  const VF safe = hn::IfThenElseZero(in_range, clamped);
  const VF n = hn::Round(hn::Mul(safe, hn::Set(d, kLog2E)));
  const VF r = Fma(n, hn::Set(d, -kLn2Low), Fma(n, hn::Set(d, -kLn2High), safe));
  VF p = hn::Set(d, kExpPoly[0]);
  for (int i = 1; i < 6; ++i) p = Fma(p, r, hn::Set(d, kExpPoly[i]));
  const VF y = hn::Add(Fma(p, hn::Mul(r, r), r), hn::Set(d, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127)));
  const VF result = hn::IfThenElseZero(in_range, hn::Mul(y, hn::BitCast(d, exponent)));
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}

// bf16 bits in the low half of each u32 lane: round to nearest even, NaN kept (numerics/bf16.h
// F32ToBf16).
HWY_INLINE hn::Vec<DU> Bf16Bits(VF v) {
  const DU du;
  const auto bits = hn::BitCast(du, v);
  const auto upper = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(upper, hn::Set(du, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFu))));
  const auto quiet = hn::Or(upper, hn::Set(du, 0x40u));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), quiet, rounded);
}

HWY_INLINE VF LoadBf16(const uint16_t* p) {
  const DF d;
  const DU du;
  const hn::Rebind<uint16_t, DF> d16;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, p))));
}
HWY_INLINE void StoreBf16(VF v, uint16_t* p) {
  const hn::Rebind<uint16_t, DU> d16;
  hn::StoreU(hn::TruncateTo(d16, Bf16Bits(v)), d16, p);
}

}  // namespace quern::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
