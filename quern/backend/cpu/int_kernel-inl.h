// The register tiles of integer products. Included once per SIMD target.
#if defined(QUERN_BACKEND_CPU_INT_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUERN_BACKEND_CPU_INT_KERNEL_INL_H_
#undef QUERN_BACKEND_CPU_INT_KERNEL_INL_H_
#else
#define QUERN_BACKEND_CPU_INT_KERNEL_INL_H_
#endif

#include "hwy/cache_control.h"
#include "quern/backend/cpu/int_dot-inl.h"
#include "quern/backend/cpu/int_tiles.h"

HWY_BEFORE_NAMESPACE();
namespace quern::backend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Where a tile's weights come from: a packed panel, or an FP4 panel decoded to a byte per weight
// because several tiles read it (kDecoded: int8's layout with codes w + 12 and f32 scales).
enum class Source { kE2M1, kInt8, kDecoded };

template <Source kSource>
struct SourceOf {
  static constexpr int64_t kCodeBytes = kSource == Source::kE2M1 ? 256 : 512;  // of a group
  static constexpr int64_t kScaleBytes = kSource == Source::kE2M1   ? 16
                                         : kSource == Source::kInt8 ? 32
                                                                    : 64;
  static constexpr bool kHasFourBits = kSource != Source::kInt8;  // codes of at most 24
  // Vectors 2 t and 2 t + 1 of a group, part v of the panel's rows.
  static HWY_INLINE void Load(const uint8_t* codes, int t, size_t v, VW* w) {
    const int64_t at = static_cast<int64_t>(v * kLanes) * 4;
    if constexpr (kSource == Source::kE2M1) {
      HWY_ALIGN static constexpr uint8_t kTwicePlus12[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                                             12, 11, 10, 9,  8,  6,  4,  0};
      const VW pair = LoadCodes(codes + t * 64 + at);
      w[0] = LookUp(kTwicePlus12, LowNibbles(pair));
      w[1] = LookUp(kTwicePlus12, HighNibbles(pair));
    } else {
      w[0] = LoadCodes(codes + t * 128 + at);
      w[1] = LoadCodes(codes + t * 128 + 64 + at);
    }
  }
  // Scales of one group, part v.
  static HWY_INLINE VF Scale(const uint8_t* scales, size_t v) {
    const DF d;
    const DU du;
    if constexpr (kSource == Source::kDecoded) {
      return hn::LoadU(d, reinterpret_cast<const float*>(scales) + v * kLanes);
    } else if constexpr (kSource == Source::kInt8) {
      return LoadBf16(reinterpret_cast<const uint16_t*>(scales) + v * kLanes);
    } else {
      const hn::Rebind<uint8_t, DF> d8;
      const auto code = hn::PromoteTo(du, hn::LoadU(d8, scales + v * kLanes));
      // Code 0 is 2^-127, a subnormal f32; code 255 is NaN.
      const auto bits = hn::IfThenElse(hn::Eq(code, hn::Zero(du)), hn::Set(du, 0x00400000u),
                                       hn::ShiftLeft<23>(code));
      const auto nan = hn::Eq(code, hn::Set(du, 255u));
      return hn::BitCast(d, hn::IfThenElse(nan, hn::Set(du, 0x7FC00000u), bits));
    }
  }
};

// sums[m] = dot of the group's weights with row m of a tile of kRows, exact.
template <Source kSource, int kRows>
HWY_INLINE void GroupDots(const uint8_t* codes, const uint8_t* x, size_t v, VI* HWY_RESTRICT sums) {
  const DI di;
  using S = SourceOf<kSource>;
  const auto* offsets =
      reinterpret_cast<const int32_t*>(x + kRows * 36) + (S::kHasFourBits ? 0 : kRows);
  QUERN_UNROLL for (int m = 0; m < kRows; ++m) sums[m] = hn::Set(di, offsets[m]);
#if QUERN_DOT_MADDUBS
  // Half a group at a time: four vectors of weights stay in registers for all rows.
  QUERN_UNROLL for (int half = 0; half < 2; ++half) {
    VW w[4];
    S::Load(codes, 2 * half, v, w);
    S::Load(codes, 2 * half + 1, v, w + 2);
    if constexpr (S::kHasFourBits) {
      QUERN_UNROLL for (int m = 0; m < kRows; ++m) {
        auto pairs = hn::Zero(DI16());
        QUERN_UNROLL for (int j = 0; j < 4; ++j) {
          const VI four = FourCodes(x + ((half * 4 + j) * kRows + m) * 4);
          pairs = hn::Add(pairs, PairProducts(w[j], four));
        }
        sums[m] = hn::Add(sums[m], AddPairs(pairs, 1));
      }
    } else {
      // 255 * 127 twice does not fit 16 bits: the nibbles of the codes one after the other.
      VW high[4];
      QUERN_UNROLL for (int j = 0; j < 4; ++j) {
        high[j] = HighNibbles(w[j]);
        w[j] = LowNibbles(w[j]);
      }
      QUERN_UNROLL for (int m = 0; m < kRows; ++m) {
        auto low_pairs = hn::Zero(DI16()), high_pairs = hn::Zero(DI16());
        QUERN_UNROLL for (int j = 0; j < 4; ++j) {
          const VI four = FourCodes(x + ((half * 4 + j) * kRows + m) * 4);
          low_pairs = hn::Add(low_pairs, PairProducts(w[j], four));
          high_pairs = hn::Add(high_pairs, PairProducts(high[j], four));
        }
        sums[m] = hn::Add(sums[m], hn::Add(AddPairs(low_pairs, 1), AddPairs(high_pairs, 16)));
      }
    }
  }
#else
  QUERN_UNROLL for (int t = 0; t < 4; ++t) {
    VW w[2];
    S::Load(codes, t, v, w);
    QUERN_UNROLL for (int j = 0; j < 2; ++j) {
      QUERN_UNROLL for (int m = 0; m < kRows; ++m) {
        sums[m] = DotAdd(w[j], x + ((t * 2 + j) * kRows + m) * 4, sums[m]);
      }
    }
  }
#endif
}

// How far ahead of use weights are fetched: 100 ns at 30 GB/s. One row needs no help: out-of-order
// execution sees enough groups ahead. With more rows it sees fewer, and waits for memory: 1.4x at 2
// rows, 1.6x at 8, measured on a Zen 4.
inline constexpr int64_t kPrefetchBytes = 3072;

// c[m][lane] = sum over groups, ascending, of dot * (x scale * w scale), by one fma each: what
// ops/linear.h says, whatever the tile.
//   w  a panel of `groups` groups   x  a tile of kRows rows   c  [kRows][16]
//   fetch  w comes from memory, not from a cache
template <Source kSource, int kRows>
HWY_INLINE void IntTimesPanel(const uint8_t* HWY_RESTRICT w, const uint8_t* HWY_RESTRICT x,
                              int64_t groups, bool fetch, float* HWY_RESTRICT c) {
  using S = SourceOf<kSource>;
  const DF d;
  VF acc[kRows][kVecs];
  QUERN_UNROLL for (int m = 0; m < kRows; ++m) {
    QUERN_UNROLL for (size_t v = 0; v < kVecs; ++v) acc[m][v] = hn::Zero(d);
  }
  for (int64_t left = groups; left > 0; left -= kScaleBlock) {
    const int64_t n = HWY_MIN(left, kScaleBlock);
    const uint8_t* scales = w + n * S::kCodeBytes;
    for (int64_t i = 0; i < n; ++i, x += TileGroupBytes(kRows)) {
      if (kRows > 1 && fetch) {
        QUERN_UNROLL for (int64_t line = 0; line < S::kCodeBytes; line += 64) {
          hwy::Prefetch(w + i * S::kCodeBytes + line + kPrefetchBytes);
        }
      }
      const auto* x_scales = reinterpret_cast<const float*>(x + kRows * 32);
      QUERN_UNROLL for (size_t v = 0; v < kVecs; ++v) {
        VI sums[kRows];
        GroupDots<kSource, kRows>(w + i * S::kCodeBytes, x, v, sums);
        const VF scale = S::Scale(scales + i * S::kScaleBytes, v);
        QUERN_UNROLL for (int m = 0; m < kRows; ++m) {
          const VF product = hn::Mul(hn::Set(d, x_scales[m]), scale);
          acc[m][v] = Fma(hn::ConvertTo(d, sums[m]), product, acc[m][v]);
        }
      }
    }
    w = scales + kScaleBlock * S::kScaleBytes;
  }
  const VF last = hn::Set(d, S::kHasFourBits ? 0.5f : 1.0f);  // FP4 codes are doubled
  QUERN_UNROLL for (int m = 0; m < kRows; ++m) {
    QUERN_UNROLL for (size_t v = 0; v < kVecs; ++v) {
      const VF value = S::kHasFourBits ? hn::Mul(acc[m][v], last) : acc[m][v];
      hn::StoreU(value, d, c + m * kPanelRows + static_cast<int64_t>(v * kLanes));
    }
  }
}

// rows <= kRows.
template <Source kSource, int kRows>
HWY_INLINE void IntTimesPanelUpTo(int64_t rows, const uint8_t* w, const uint8_t* x, int64_t groups,
                                  bool fetch, float* c) {
  if (rows == kRows) return IntTimesPanel<kSource, kRows>(w, x, groups, fetch, c);
  if constexpr (kRows > 1) IntTimesPanelUpTo<kSource, kRows - 1>(rows, w, x, groups, fetch, c);
}

// An E2M1 panel as kDecoded.
HWY_INLINE void DecodeInts(const uint8_t* HWY_RESTRICT w, int64_t groups,
                           uint8_t* HWY_RESTRICT out) {
  using From = SourceOf<Source::kE2M1>;
  using To = SourceOf<Source::kDecoded>;
  for (int64_t left = groups; left > 0; left -= kScaleBlock) {
    const int64_t n = HWY_MIN(left, kScaleBlock);
    const uint8_t* scales = w + n * From::kCodeBytes;
    uint8_t* out_scales = out + n * To::kCodeBytes;
    for (int64_t i = 0; i < n; ++i) {
      QUERN_UNROLL for (size_t v = 0; v < kVecs; ++v) {
        const size_t at = v * kLanes;
        QUERN_UNROLL for (int t = 0; t < 4; ++t) {
          VW pair[2];
          From::Load(w + i * From::kCodeBytes, t, v, pair);
          uint8_t* p = out + i * To::kCodeBytes + t * 128 + at * 4;
          StoreCodes(pair[0], p);
          StoreCodes(pair[1], p + 64);
        }
        auto* scale = reinterpret_cast<float*>(out_scales + i * To::kScaleBytes);
        hn::StoreU(From::Scale(scales + i * From::kScaleBytes, v), DF(), scale + at);
      }
    }
    w = scales + kScaleBlock * From::kScaleBytes;
    out = out_scales + kScaleBlock * To::kScaleBytes;
  }
}

}  // namespace quern::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
