// Sums of products of unsigned weight codes and signed activation codes, per 32-bit lane. Included
// once per SIMD target.
#if defined(QUERN_BACKEND_CPU_INT_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUERN_BACKEND_CPU_INT_DOT_INL_H_
#undef QUERN_BACKEND_CPU_INT_DOT_INL_H_
#else
#define QUERN_BACKEND_CPU_INT_DOT_INL_H_
#endif

#include <cstring>

#include "quern/backend/cpu/int_matrix.h"
#include "quern/backend/cpu/simd-inl.h"

// How a target multiplies u8 by s8. Highway 1.0.3 has no operation for it.
#undef QUERN_DOT_VNNI
#undef QUERN_DOT_MADDUBS
#if HWY_TARGET == HWY_AVX3_DL
#define QUERN_DOT_VNNI 1
#define QUERN_DOT_MADDUBS 0
#elif HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4 || \
    HWY_TARGET == HWY_SSSE3
#define QUERN_DOT_VNNI 0
#define QUERN_DOT_MADDUBS 1
#else
#define QUERN_DOT_VNNI 0
#define QUERN_DOT_MADDUBS 0
#endif

HWY_BEFORE_NAMESPACE();
namespace quern::backend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using VI = hn::Vec<DI>;

// Four weight codes, a byte each, in every 32-bit lane.
#if HWY_TARGET == HWY_SCALAR
using VW = hn::Vec<DU>;  // one lane: no byte vectors to look up in
HWY_INLINE VW LoadCodes(const uint8_t* p) {
  uint32_t four;
  std::memcpy(&four, p, 4);
  return hn::Set(DU(), four);
}
HWY_INLINE void StoreCodes(VW w, uint8_t* p) { std::memcpy(p, &w.raw, 4); }
HWY_INLINE VW LowNibbles(VW w) { return hn::And(w, hn::Set(DU(), 0x0F0F0F0Fu)); }
HWY_INLINE VW HighNibbles(VW w) { return LowNibbles(hn::ShiftRight<4>(w)); }
HWY_INLINE VW LookUp(const uint8_t* table, VW index) {
  uint32_t four = 0;
  for (int shift = 0; shift < 32; shift += 8) {
    four |= uint32_t{table[index.raw >> shift & 15]} << shift;
  }
  return hn::Set(DU(), four);
}
#else
using DU8 = hn::Repartition<uint8_t, DF>;
using VW = hn::Vec<DU8>;
HWY_INLINE VW LoadCodes(const uint8_t* p) { return hn::LoadU(DU8(), p); }
HWY_INLINE void StoreCodes(VW w, uint8_t* p) { hn::StoreU(w, DU8(), p); }
HWY_INLINE VW LowNibbles(VW w) { return hn::And(w, hn::Set(DU8(), uint8_t{15})); }
HWY_INLINE VW HighNibbles(VW w) {
  const hn::Repartition<uint16_t, DF> d16;  // there is no shift of bytes
  return LowNibbles(hn::BitCast(DU8(), hn::ShiftRight<4>(hn::BitCast(d16, w))));
}
// table[index] for each byte; indices below 16.
HWY_INLINE VW LookUp(const uint8_t* table, VW index) {
  return hn::TableLookupBytes(hn::LoadDup128(DU8(), table), index);
}
#endif

// Rows of a tile. VNNI: 12 accumulators, 12 sums and the weights fill 27 of 32 registers. Without
// it a chain of products takes more of them, and AVX2 has 16.
inline constexpr int64_t kIntTileRows = QUERN_DOT_VNNI ? 12 : HWY_TARGET == HWY_AVX3 ? 8 : 4;

// Four activation codes in every lane.
HWY_INLINE VI FourCodes(const uint8_t* p) {
  int32_t four;
  std::memcpy(&four, p, 4);
  return hn::Set(DI(), four);
}

#if QUERN_DOT_VNNI

// sum + the four products of each lane; `x` points at four s8 codes, which the instruction itself
// spreads over the lanes. Assembly, since Highway compiles this target without avx512vnni.
HWY_INLINE VI DotAdd(VW w, const uint8_t* x, VI sum) {
  __asm__("vpdpbusd %2%{1to16%}, %1, %0"
          : "+v"(sum.raw)
          : "v"(w.raw), "m"(*reinterpret_cast<const int32_t*>(x)));
  return sum;
}

#elif QUERN_DOT_MADDUBS

using DI16 = hn::Repartition<int16_t, DF>;
using VI16 = hn::Vec<DI16>;

// Pairs of products in 16 bits: w of at most 24 (or 15) times codes of at most 127, so four of
// these, and even eight of the latter, add up without overflow.
HWY_INLINE VI16 PairProducts(VW w, VI x) {
#if HWY_TARGET == HWY_AVX3
  return VI16{_mm512_maddubs_epi16(w.raw, x.raw)};
#elif HWY_TARGET == HWY_AVX2
  return VI16{_mm256_maddubs_epi16(w.raw, x.raw)};
#else
  return VI16{_mm_maddubs_epi16(w.raw, x.raw)};
#endif
}

// Adds the two 16-bit sums of each lane, times `factor`.
HWY_INLINE VI AddPairs(VI16 sums, int16_t factor) {
  const auto f = hn::Set(DI16(), factor);
#if HWY_TARGET == HWY_AVX3
  return VI{_mm512_madd_epi16(sums.raw, f.raw)};
#elif HWY_TARGET == HWY_AVX2
  return VI{_mm256_madd_epi16(sums.raw, f.raw)};
#else
  return VI{_mm_madd_epi16(sums.raw, f.raw)};
#endif
}

#else

// Any other target: the four bytes of each lane one after the other.
HWY_INLINE VI DotAdd(VW w, const uint8_t* x, VI sum) {
  const DI di;
  const auto codes = FourCodes(x);
  const auto weights = hn::BitCast(di, w);
  const auto byte = hn::Set(di, 255);
  const auto add = [&](VI weight, VI code) { sum = hn::Add(sum, hn::Mul(weight, code)); };
  add(hn::And(weights, byte), hn::ShiftRight<24>(hn::ShiftLeft<24>(codes)));
  add(hn::And(hn::ShiftRight<8>(weights), byte), hn::ShiftRight<24>(hn::ShiftLeft<16>(codes)));
  add(hn::And(hn::ShiftRight<16>(weights), byte), hn::ShiftRight<24>(hn::ShiftLeft<8>(codes)));
  add(hn::And(hn::ShiftRight<24>(weights), byte), hn::ShiftRight<24>(codes));
  return sum;
}

#endif

}  // namespace quern::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
