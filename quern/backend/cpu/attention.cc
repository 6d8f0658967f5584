#include "quern/backend/cpu/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quern/backend/cpu/attention.cc"
#include "hwy/foreach_target.h"  // compiles this file once per SIMD target
#include "hwy/highway.h"
#include "quern/backend/cpu/decode-inl.h"
#include "quern/backend/cpu/gemm_kernel-inl.h"
#include "quern/backend/host/host_memory.h"
#include "quern/numerics/e4m3.h"

HWY_BEFORE_NAMESPACE();
namespace quern::backend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// n elements of type `type` to f32.
HWY_INLINE void ToF32(Dtype type, const void* src, int64_t n, float* out) {
  const DF d;
  int64_t i = 0;
  if (type == Dtype::kF32) {
    const float* p = static_cast<const float*>(src);
    for (; i + static_cast<int64_t>(kLanes) <= n; i += kLanes)
      hn::StoreU(hn::LoadU(d, p + i), d, out + i);
    for (; i < n; ++i) out[i] = p[i];
  } else {
    const uint16_t* p = static_cast<const uint16_t*>(src);
    for (; i + static_cast<int64_t>(kLanes) <= n; i += kLanes)
      hn::StoreU(LoadBf16(p + i), d, out + i);
    for (; i < n; ++i) out[i] = Bf16ToF32(p[i]);
  }
}

// E4M3 codes times `scale`.
HWY_INLINE void CodesToF32(const uint8_t* p, int64_t n, float scale, float* out) {
  const DF d;
  int64_t i = 0;
  for (; i + static_cast<int64_t>(kLanes) <= n; i += kLanes)
    hn::StoreU(hn::Mul(DecodeE4M3(p + i), hn::Set(d, scale)), d, out + i);
  for (; i < n; ++i) out[i] = E4M3ToF32(p[i]) * scale;
}

// A pool's row of n elements to f32; formats: KeyRowElements.
HWY_INLINE void KeyToF32(Dtype pool, const void* src, int64_t n, int64_t scaled, float* out) {
  const uint8_t* codes = static_cast<const uint8_t*>(src);
  if (pool == Dtype::kF8E4M3) {
    CodesToF32(codes, n, 1.0f, out);
  } else if (pool == Dtype::kU8) {
    for (int64_t i = 0; i < scaled; i += kKeyScaleGroup) {
      float scale;
      std::memcpy(&scale, codes + scaled + i / kKeyScaleGroup * 4, 4);
      CodesToF32(codes + i, HWY_MIN(kKeyScaleGroup, scaled - i), scale, out + i);
    }
    const uint8_t* rest = codes + KeyRowElements(Dtype::kU8, scaled, scaled);
    for (int64_t i = scaled; i < n; ++i) {
      uint16_t bits;
      std::memcpy(&bits, rest + (i - scaled) * 2, 2);
      out[i] = Bf16ToF32(bits);
    }
  } else {
    ToF32(pool, src, n, out);
  }
}

// Heads [16 * panel, + 16) of row t of q [tokens, heads, width], as a panel [width][16]; lanes past
// the last head are 0.
HWY_INLINE void HeadPanel(const Tensor& q, int64_t t, int64_t panel, float* out) {
  const int64_t width = q.dim(2);
  const int64_t heads = HWY_MIN(16, q.dim(1) - panel * 16);
  for (int64_t i = 0; i < width * 16; ++i) out[i] = 0.0f;
  for (int64_t h = 0; h < heads; ++h) {
    const void* row = host::RowVoid(q, t, panel * 16 + h);
    for (int64_t i = 0; i < width; ++i) out[i * 16 + h] = host::LoadF32(q.dtype, row, i);
  }
}

void PanelAttention(const MlaAttentionArgs& a, int64_t t, int64_t panel, float* scratch) {
  const DF d;
  const int64_t width = a.q.dim(2), rank = a.y.dim(2);
  float* q = scratch;                     // [width][16]
  float* keys = q + width * 16;           // [64][width]
  float* p = keys + kPageTokens * width;  // [64][16] scores, then probabilities
  float* z = p + kPageTokens * 16;        // [rank][16]
  HeadPanel(a.q, t, panel, q);
  for (int64_t i = 0; i < rank * 16; ++i) z[i] = 0.0f;
  VF running_max[kVecs], sum[kVecs];
  for (size_t v = 0; v < kVecs; ++v) {
    running_max[v] = hn::Set(d, -INFINITY);
    sum[v] = hn::Zero(d);
  }
  const int64_t count = a.selection != nullptr ? host::I32(a.selection->counts, t)
                                               : host::I32(a.batch.positions, t) + 1;
  for (int64_t begin = 0; begin < count; begin += kPageTokens) {
    const int64_t n = HWY_MIN(kPageTokens, count - begin);
    for (int64_t j = 0; j < n; ++j) {
      const int64_t pos =
          a.selection != nullptr ? host::I32(a.selection->positions, t, begin + j) : begin + j;
      KeyToF32(a.cache.dtype, host::CacheRow(a.cache, a.batch, t, pos), width, rank,
               keys + j * width);
    }
    for (int64_t i = 0; i < n * 16; ++i) p[i] = 0.0f;
    TileRows<1>(keys, width, 1, n, &q, width, p, 16);
    for (size_t v = 0; v < kVecs; ++v) {
      float* pv = p + v * kLanes;
      VF tile_max = running_max[v];
      for (int64_t j = 0; j < n; ++j) {
        const VF s = hn::Mul(hn::Load(d, pv + j * 16), hn::Set(d, a.scale));
        hn::Store(s, d, pv + j * 16);
        tile_max = hn::IfThenElse(hn::Gt(s, tile_max), s, tile_max);
      }
      const VF rescale = ExpVec(hn::Sub(running_max[v], tile_max));
      sum[v] = hn::Mul(sum[v], rescale);
      for (int64_t j = 0; j < n; ++j) {
        const VF e = ExpVec(hn::Sub(hn::Load(d, pv + j * 16), tile_max));
        hn::Store(e, d, pv + j * 16);
        sum[v] = hn::Add(sum[v], e);
      }
      for (int64_t c = 0; c < rank; ++c) {
        float* zc = z + c * 16 + v * kLanes;
        hn::Store(hn::Mul(hn::Load(d, zc), rescale), d, zc);
      }
      running_max[v] = tile_max;
    }
    TileRows<1>(keys, 1, width, rank, &p, n, z, 16);  // x[c][j] = key j's latent element c
  }
  const int64_t heads = HWY_MIN(16, a.q.dim(1) - panel * 16);
  for (size_t v = 0; v < kVecs; ++v) {
    for (int64_t c = 0; c < rank; ++c) {
      float* zc = z + c * 16 + v * kLanes;
      hn::Store(hn::Div(hn::Load(d, zc), sum[v]), d, zc);
    }
  }
  for (int64_t h = 0; h < heads; ++h) {
    float* y = host::RowPtr<float>(a.y, t, panel * 16 + h);
    for (int64_t c = 0; c < rank; ++c) y[c] = z[c * 16 + h];
  }
}

void ScoreKeys(const IndexSelectArgs& a, int64_t t, int64_t begin, int64_t end, float* scores,
               float* scratch) {
  const DF d;
  const int64_t heads = a.q.dim(1), width = a.q.dim(2);
  const int64_t panels = (heads + 15) / 16;
  const float* weights = host::RowPtr<float>(a.weights, t);
  float* q = scratch;                        // [panels][width][16]
  float* keys = q + panels * width * 16;     // [64][width]
  float* dots = keys + kPageTokens * width;  // [64][16]
  float* sums = dots + kPageTokens * 16;     // [64][16]
  for (int64_t p = 0; p < panels; ++p) HeadPanel(a.q, t, p, q + p * width * 16);
  for (int64_t first = begin; first < end; first += kPageTokens) {
    const int64_t n = HWY_MIN(kPageTokens, end - first);
    for (int64_t j = 0; j < n; ++j) {
      KeyToF32(a.keys.dtype, host::CacheRow(a.keys, a.batch, t, first + j), width, width,
               keys + j * width);
    }
    for (int64_t i = 0; i < n * 16; ++i) sums[i] = 0.0f;
    for (int64_t p = 0; p < panels; ++p) {
      HWY_ALIGN float w[16] = {};
      for (int64_t h = p * 16; h < HWY_MIN(heads, p * 16 + 16); ++h)
        w[h - p * 16] = weights[h] * a.scale;
      for (int64_t i = 0; i < n * 16; ++i) dots[i] = 0.0f;
      const float* panel = q + p * width * 16;
      TileRows<1>(keys, width, 1, n, &panel, width, dots, 16);
      for (int64_t i = 0; i < n * 16; i += static_cast<int64_t>(kLanes)) {
        const VF dot = hn::Load(d, dots + i);
        const VF relu = hn::IfThenElseZero(hn::Gt(dot, hn::Zero(d)), dot);
        hn::Store(Fma(relu, hn::Load(d, w + i % 16), hn::Load(d, sums + i)), d, sums + i);
      }
    }
    for (int64_t j = 0; j < n; ++j) {
      float lanes[kSumLanes];
      for (int64_t i = 0; i < kSumLanes; ++i) lanes[i] = sums[j * 16 + i];
      scores[first - begin + j] = ReduceLanes(lanes);
    }
  }
}

}  // namespace quern::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern::backend::cpu {
HWY_EXPORT(PanelAttention);
HWY_EXPORT(ScoreKeys);

int64_t AttentionScratchFloats(int64_t width, int64_t rank) {
  return width * 16 + kPageTokens * width + 2 * kPageTokens * 16 + rank * 16 + 64;
}
void AttendPanel(const MlaAttentionArgs& args, int64_t t, int64_t panel, float* scratch) {
  HWY_DYNAMIC_DISPATCH(PanelAttention)(args, t, panel, scratch);
}
void IndexScores(const IndexSelectArgs& args, int64_t t, int64_t begin, int64_t end, float* scores,
                 float* scratch) {
  HWY_DYNAMIC_DISPATCH(ScoreKeys)(args, t, begin, end, scores, scratch);
}
}  // namespace quern::backend::cpu
#endif  // HWY_ONCE
