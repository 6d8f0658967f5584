// Packed codes to f32 vectors. Included once per SIMD target.
#if defined(QUERN_BACKEND_CPU_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUERN_BACKEND_CPU_DECODE_INL_H_
#undef QUERN_BACKEND_CPU_DECODE_INL_H_
#else
#define QUERN_BACKEND_CPU_DECODE_INL_H_
#endif

#include "quern/backend/cpu/packed_matrix.h"
#include "quern/backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quern::backend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// E4M3 by way of f16, which has hardware conversion and whose mantissa holds it: the same bits 7
// places up are the value times 2^-8, subnormals included.
HWY_INLINE VF DecodeE4M3(const uint8_t* p) {
  const DF d;
  const hn::Rebind<uint8_t, DF> d8;
  const hn::Rebind<uint16_t, DF> d16;
  const hn::Rebind<hwy::float16_t, DF> df16;
  const auto code = hn::PromoteTo(d16, hn::LoadU(d8, p));
  const auto magnitude = hn::And(hn::ShiftLeft<7>(code), hn::Set(d16, uint16_t{0x3F80}));
  const auto sign = hn::And(hn::ShiftLeft<8>(code), hn::Set(d16, uint16_t{0x8000}));
  const auto is_nan = hn::Eq(magnitude, hn::Set(d16, uint16_t{0x3F80}));
  const auto bits = hn::Or(hn::IfThenElse(is_nan, hn::Set(d16, uint16_t{0x7E00}), magnitude), sign);
  const VF value = hn::Mul(hn::PromoteTo(d, hn::BitCast(df16, bits)), hn::Set(d, 256.0f));
  if constexpr (kLanes >= 8) return value;
  // Where Highway converts f16 in software, it takes NaN for a number.
  const DU du;
  const auto low = hn::And(hn::PromoteTo(du, code), hn::Set(du, 0x7Fu));
  const auto nan = hn::Eq(low, hn::Set(du, 0x7Fu));
  return hn::BitCast(d, hn::IfThenElse(nan, hn::Set(du, 0x7FC00000u), hn::BitCast(du, value)));
}

// E2M1 codes in the low 4 bits of each lane; higher bits are ignored.
HWY_INLINE VF DecodeE2M1(hn::Vec<DU> code) {
  const DF d;
  const DU du;
  HWY_ALIGN static constexpr float kValues[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,
                                                  4.0f,  6.0f,  -0.0f, -0.5f, -1.0f, -1.5f,
                                                  -2.0f, -3.0f, -4.0f, -6.0f};
  if constexpr (kLanes == 16) {  // all 16 values in one register
    const auto index = hn::And(code, hn::Set(du, 15u));
    return hn::TableLookupLanes(hn::Load(d, kValues), hn::IndicesFromVec(d, index));
  }
  const auto sign = hn::ShiftLeft<28>(hn::And(code, hn::Set(du, 8u)));
  const auto m = hn::And(code, hn::Set(du, 7u));
  if constexpr (kLanes == 8) {
    const VF value = hn::TableLookupLanes(hn::Load(d, kValues), hn::IndicesFromVec(d, m));
    return hn::BitCast(d, hn::Or(hn::BitCast(du, value), sign));
  }
  // As E4M3 above: the three bits as an f32 with exponent bias 1 instead of 127; 1 is its only
  // subnormal.
  const auto normal = hn::Add(hn::ShiftLeft<22>(m), hn::Set(du, 126u << 23));
  const auto one = hn::Eq(m, hn::Set(du, 1u)), zero = hn::Eq(m, hn::Zero(du));
  const auto bits = hn::IfThenElse(one, hn::Set(du, 0x3F000000u), normal);
  return hn::BitCast(d, hn::Or(hn::IfThenElse(zero, hn::Zero(du), bits), sign));
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

// Values of kCodesPerStep consecutive k for the lanes of vector v: FP4 holds two k in a byte.
template <Codes kCodes>
inline constexpr int kCodesPerStep = kCodes == Codes::kE2M1 ? 2 : 1;
template <Codes kCodes>
inline constexpr bool kHasScales = kCodes == Codes::kE4M3 || kCodes == Codes::kE2M1;
template <Codes kCodes>
struct Weights {
  VF v[kCodesPerStep<kCodes>];
};

template <Codes kCodes>
HWY_INLINE Weights<kCodes> LoadWeights(const uint8_t* codes, int64_t k, size_t v) {
  const int64_t at = k * kPanelRows + static_cast<int64_t>(v * kLanes);
  if constexpr (kCodes == Codes::kF32) {
    return {{hn::Load(DF(), reinterpret_cast<const float*>(codes) + at)}};
  } else if constexpr (kCodes == Codes::kBf16) {
    return {{LoadBf16(reinterpret_cast<const uint16_t*>(codes) + at)}};
  } else if constexpr (kCodes == Codes::kE4M3) {
    return {{DecodeE4M3(codes + at)}};
  } else {
    const hn::Rebind<uint8_t, DF> d8;
    const uint8_t* p = codes + k / 2 * kPanelRows + v * kLanes;
    const auto pair = hn::PromoteTo(DU(), hn::LoadU(d8, p));
    return {{DecodeE2M1(pair), DecodeE2M1(hn::ShiftRight<4>(pair))}};
  }
}

// Writes f32 [kc][16] of a panel, k from k0 (k0 and kc even for FP4): what DecodeRow gives for its
// 16 rows.
template <Codes kCodes>
HWY_INLINE void DecodePanel(const PackedMatrix& m, int64_t panel, int64_t k0, int64_t kc,
                            float* HWY_RESTRICT out) {
  const DF d;
  const uint8_t* codes = m.panel_codes(panel);
  const uint8_t* scales = m.panel_scales(panel);
  for (int64_t k = k0; k < k0 + kc;) {
    const int64_t g = k / m.group;
    const int64_t end = HWY_MIN((g + 1) * m.group, k0 + kc);
    VF scale[kVecs];
    if constexpr (kHasScales<kCodes>) {
      QUERN_UNROLL for (size_t v = 0; v < kVecs; ++v) scale[v] = LoadScale(m.scales, scales, g, v);
    }
    for (; k < end; k += kCodesPerStep<kCodes>) {
      float* o = out + (k - k0) * kPanelRows;
      QUERN_UNROLL for (size_t v = 0; v < kVecs; ++v) {
        const auto w = LoadWeights<kCodes>(codes, k, v);
        QUERN_UNROLL for (int j = 0; j < kCodesPerStep<kCodes>; ++j) {
          const VF value = kHasScales<kCodes> ? hn::Mul(w.v[j], scale[v]) : w.v[j];
          hn::Store(value, d, o + j * kPanelRows + v * kLanes);
        }
      }
    }
  }
}

}  // namespace quern::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
