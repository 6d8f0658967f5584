// Causal attention over many short documents, forward and backward, for training on a CPU with
// AVX-512.
//
// torch's flash kernel needs about 1 ms per document of 100 tokens, whatever the arithmetic; here a
// document and head is a few small products in f32 that stay in the cache. Called from kernels.py
// through ctypes; without it torch's kernel is used.
//
// Layouts: q, k [tokens, heads, kQk] and v, out [tokens, heads, kV], bf16; lse [tokens, heads] f32.
// masks: one pointer per document, null for plain causal, else additive f32 [len, len].

#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

namespace {

constexpr int kQk = 48;  // a multiple of 16, as is kV
constexpr int kV = 32;
constexpr int kRows = 16;  // query rows at a time

float FromBf16(uint16_t x) {
  uint32_t bits = static_cast<uint32_t>(x) << 16;
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}

uint16_t ToBf16(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

__m512 Load(const uint16_t* p) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p)), 16));
}

void Store(uint16_t* p, __m512 x) {
  _mm256_storeu_si256((__m256i*)p, (__m256i)_mm512_cvtneps_pbh(x));
}

// e^x for x <= 0 (-inf gives 0), to about 2 units in the last place.
__m512 Exp(__m512 x) {
  x = _mm512_max_ps(x, _mm512_set1_ps(-87.0f));
  __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 8);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
  __m512 p = _mm512_set1_ps(1.0f / 720);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 120));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 24));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 6));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(p, n);
}

struct Buffers {
  std::vector<float> kt, vt, k, v, dk, dv, s, ds;
  void Fit(int len, int padded) {
    kt.assign(kQk * padded, 0.0f);
    vt.assign(kV * padded, 0.0f);
    k.resize(static_cast<size_t>(len) * kQk);
    v.resize(static_cast<size_t>(len) * kV);
    s.resize(static_cast<size_t>(kRows) * padded);
    ds.resize(static_cast<size_t>(kRows) * padded);
  }
};

int Pad(int n) { return (n + 63) / 64 * 64; }

// rows of f32 [len][width] and their transpose [width][padded] from a strided bf16 matrix.
template <int kWidth>
void Unpack(const uint16_t* from, int64_t stride, int len, int padded, float* rows, float* t) {
  for (int j = 0; j < len; ++j) {
    for (int d = 0; d < kWidth; d += 16) {
      _mm512_storeu_ps(rows + j * kWidth + d, Load(from + j * stride + d));
    }
    if (t != nullptr) {
      for (int d = 0; d < kWidth; ++d)
        t[static_cast<size_t>(d) * padded + j] = rows[j * kWidth + d];
    }
  }
}

// out[r][0..keys) = sum_d a[r][d] t[d][key], kRows rows; keys rounded up to 64.
template <int kWidth>
void TimesTransposed(const float* a, const float* t, int keys, int padded, float* out) {
  for (int j = 0; j < keys; j += 64) {
    for (int r = 0; r < kRows; r += 4) {
      __m512 acc[4][4];
      for (auto& row : acc) {
        for (auto& x : row) x = _mm512_setzero_ps();
      }
      for (int d = 0; d < kWidth; ++d) {
        const float* td = t + static_cast<size_t>(d) * padded + j;
        __m512 x0 = _mm512_loadu_ps(td), x1 = _mm512_loadu_ps(td + 16);
        __m512 x2 = _mm512_loadu_ps(td + 32), x3 = _mm512_loadu_ps(td + 48);
        for (int i = 0; i < 4; ++i) {
          __m512 q = _mm512_set1_ps(a[(r + i) * kWidth + d]);
          acc[i][0] = _mm512_fmadd_ps(q, x0, acc[i][0]);
          acc[i][1] = _mm512_fmadd_ps(q, x1, acc[i][1]);
          acc[i][2] = _mm512_fmadd_ps(q, x2, acc[i][2]);
          acc[i][3] = _mm512_fmadd_ps(q, x3, acc[i][3]);
        }
      }
      for (int i = 0; i < 4; ++i) {
        for (int x = 0; x < 4; ++x) {
          _mm512_storeu_ps(out + static_cast<size_t>(r + i) * padded + j + 16 * x, acc[i][x]);
        }
      }
    }
  }
}

// out[r][0..kWidth) = sum_key p[r][key] m[key][..].
template <int kWidth>
void TimesRows(const float* p, const float* m, int keys, int padded, float* out) {
  constexpr int kVecs = kWidth / 16;
  for (int r = 0; r < kRows; r += 4) {
    __m512 acc[4][kVecs];
    for (auto& row : acc) {
      for (auto& x : row) x = _mm512_setzero_ps();
    }
    for (int j = 0; j < keys; ++j) {
      __m512 x[kVecs];
      for (int c = 0; c < kVecs; ++c)
        x[c] = _mm512_loadu_ps(m + static_cast<size_t>(j) * kWidth + 16 * c);
      for (int i = 0; i < 4; ++i) {
        __m512 w = _mm512_set1_ps(p[static_cast<size_t>(r + i) * padded + j]);
        for (int c = 0; c < kVecs; ++c) acc[i][c] = _mm512_fmadd_ps(w, x[c], acc[i][c]);
      }
    }
    for (int i = 0; i < 4; ++i) {
      for (int c = 0; c < kVecs; ++c) _mm512_storeu_ps(out + (r + i) * kWidth + 16 * c, acc[i][c]);
    }
  }
}

// out[key][..] += sum_r p[r][key] a[r][..].
template <int kWidth>
void AddOuter(const float* p, const float* a, int keys, int padded, float* out) {
  constexpr int kVecs = kWidth / 16;
  for (int j = 0; j < keys; j += 4) {
    int count = keys - j < 4 ? keys - j : 4;
    __m512 acc[4][kVecs];
    for (int i = 0; i < 4; ++i) {
      for (int c = 0; c < kVecs; ++c) {
        acc[i][c] = i < count ? _mm512_loadu_ps(out + static_cast<size_t>(j + i) * kWidth + 16 * c)
                              : _mm512_setzero_ps();
      }
    }
    for (int r = 0; r < kRows; ++r) {
      __m512 x[kVecs];
      for (int c = 0; c < kVecs; ++c) x[c] = _mm512_loadu_ps(a + r * kWidth + 16 * c);
      for (int i = 0; i < 4; ++i) {  // past `count`: padding of p, dropped below
        __m512 w = _mm512_set1_ps(p[static_cast<size_t>(r) * padded + j + i]);
        for (int c = 0; c < kVecs; ++c) acc[i][c] = _mm512_fmadd_ps(w, x[c], acc[i][c]);
      }
    }
    for (int i = 0; i < count; ++i) {
      for (int c = 0; c < kVecs; ++c) {
        _mm512_storeu_ps(out + static_cast<size_t>(j + i) * kWidth + 16 * c, acc[i][c]);
      }
    }
  }
}

// Scaled scores of rows first.. with everything that may not be seen at -inf.
void Mask(float* s, int first, int len, int keys, int padded, float scale, const float* mask) {
  const float kNever = -std::numeric_limits<float>::infinity();
  int wide = Pad(keys);
  for (int r = 0; r < kRows; ++r) {
    float* row = s + static_cast<size_t>(r) * padded;
    int t = first + r < len ? first + r : len - 1;
    for (int j = 0; j < wide; ++j) row[j] *= scale;
    if (mask != nullptr) {
      for (int j = 0; j <= t; ++j) row[j] += mask[static_cast<size_t>(t) * len + j];
    }
    for (int j = t + 1; j < wide; ++j) row[j] = kNever;
  }
}

template <int kWidth>
void LoadRows(const uint16_t* from, int64_t stride, int count, float* rows) {
  for (int r = 0; r < kRows; ++r) {
    for (int d = 0; d < kWidth; d += 16) {
      _mm512_storeu_ps(rows + r * kWidth + d,
                       r < count ? Load(from + r * stride + d) : _mm512_setzero_ps());
    }
  }
}

void ForwardOne(const uint16_t* q, const uint16_t* k, const uint16_t* v, uint16_t* out, float* lse,
                int len, int heads, float scale, const float* mask, Buffers& b) {
  int padded = Pad(len);
  int64_t qk_stride = static_cast<int64_t>(heads) * kQk,
          v_stride = static_cast<int64_t>(heads) * kV;
  b.Fit(len, padded);
  Unpack<kQk>(k, qk_stride, len, padded, b.k.data(), b.kt.data());
  Unpack<kV>(v, v_stride, len, padded, b.v.data(), nullptr);
  alignas(64) float rows[kRows * kQk], y[kRows * kV];
  for (int first = 0; first < len; first += kRows) {
    int count = len - first < kRows ? len - first : kRows, keys = first + count;
    LoadRows<kQk>(q + first * qk_stride, qk_stride, count, rows);
    TimesTransposed<kQk>(rows, b.kt.data(), keys, padded, b.s.data());
    Mask(b.s.data(), first, len, keys, padded, scale, mask);
    float inverse[kRows];
    int wide = Pad(keys);
    for (int r = 0; r < kRows; ++r) {
      float* row = b.s.data() + static_cast<size_t>(r) * padded;
      __m512 top = _mm512_loadu_ps(row);
      for (int j = 16; j < wide; j += 16) top = _mm512_max_ps(top, _mm512_loadu_ps(row + j));
      float most = _mm512_reduce_max_ps(top);
      __m512 sum = _mm512_setzero_ps();
      for (int j = 0; j < wide; j += 16) {
        __m512 x = _mm512_loadu_ps(row + j);
        __mmask16 seen = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-1e30f), _CMP_GT_OQ);
        __m512 e = _mm512_maskz_mov_ps(seen, Exp(_mm512_sub_ps(x, _mm512_set1_ps(most))));
        sum = _mm512_add_ps(sum, e);
        _mm512_storeu_ps(row + j, e);
      }
      float total = _mm512_reduce_add_ps(sum);
      inverse[r] = 1.0f / total;
      if (r < count) lse[static_cast<int64_t>(first + r) * heads] = most + std::log(total);
    }
    TimesRows<kV>(b.s.data(), b.v.data(), keys, padded, y);
    for (int r = 0; r < count; ++r) {
      for (int d = 0; d < kV; d += 16) {
        Store(out + (first + r) * v_stride + d,
              _mm512_mul_ps(_mm512_loadu_ps(y + r * kV + d), _mm512_set1_ps(inverse[r])));
      }
    }
  }
}

void BackwardOne(const uint16_t* dout, const uint16_t* q, const uint16_t* k, const uint16_t* v,
                 const uint16_t* out, const float* lse, uint16_t* dq, uint16_t* dk, uint16_t* dv,
                 int len, int heads, float scale, const float* mask, Buffers& b) {
  int padded = Pad(len);
  int64_t qk_stride = static_cast<int64_t>(heads) * kQk,
          v_stride = static_cast<int64_t>(heads) * kV;
  b.Fit(len, padded);
  b.dk.assign(static_cast<size_t>(len) * kQk, 0.0f);
  b.dv.assign(static_cast<size_t>(len) * kV, 0.0f);
  Unpack<kQk>(k, qk_stride, len, padded, b.k.data(), b.kt.data());
  Unpack<kV>(v, v_stride, len, padded, b.v.data(), b.vt.data());
  alignas(64) float rows[kRows * kQk], grads[kRows * kV], y[kRows * kQk];
  for (int first = 0; first < len; first += kRows) {
    int count = len - first < kRows ? len - first : kRows, keys = first + count, wide = Pad(keys);
    LoadRows<kQk>(q + first * qk_stride, qk_stride, count, rows);
    LoadRows<kV>(dout + first * v_stride, v_stride, count, grads);
    TimesTransposed<kQk>(rows, b.kt.data(), keys, padded, b.s.data());
    TimesTransposed<kV>(grads, b.vt.data(), keys, padded, b.ds.data());
    Mask(b.s.data(), first, len, keys, padded, scale, mask);
    for (int r = 0; r < kRows; ++r) {
      float* p = b.s.data() + static_cast<size_t>(r) * padded;
      float* ds = b.ds.data() + static_cast<size_t>(r) * padded;
      float log_sum = r < count ? lse[static_cast<int64_t>(first + r) * heads] : 0.0f, dot = 0.0f;
      for (int d = 0; r < count && d < kV; ++d) {
        dot += grads[r * kV + d] * FromBf16(out[(first + r) * v_stride + d]);
      }
      for (int j = 0; j < wide; j += 16) {
        __m512 x = _mm512_loadu_ps(p + j);
        __mmask16 seen = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-1e30f), _CMP_GT_OQ);
        if (r >= count) seen = 0;
        __m512 e = _mm512_maskz_mov_ps(seen, Exp(_mm512_sub_ps(x, _mm512_set1_ps(log_sum))));
        _mm512_storeu_ps(p + j, e);
        __m512 g = _mm512_sub_ps(_mm512_loadu_ps(ds + j), _mm512_set1_ps(dot));
        _mm512_storeu_ps(ds + j, _mm512_mul_ps(_mm512_mul_ps(e, g), _mm512_set1_ps(scale)));
      }
    }
    TimesRows<kQk>(b.ds.data(), b.k.data(), keys, padded, y);
    for (int r = 0; r < count; ++r) {
      for (int d = 0; d < kQk; d += 16)
        Store(dq + (first + r) * qk_stride + d, _mm512_loadu_ps(y + r * kQk + d));
    }
    AddOuter<kQk>(b.ds.data(), rows, keys, padded, b.dk.data());
    AddOuter<kV>(b.s.data(), grads, keys, padded, b.dv.data());
  }
  for (int j = 0; j < len; ++j) {
    for (int d = 0; d < kQk; ++d) dk[j * qk_stride + d] = ToBf16(b.dk[j * kQk + d]);
    for (int d = 0; d < kV; ++d) dv[j * v_stride + d] = ToBf16(b.dv[j * kV + d]);
  }
}

}  // namespace

extern "C" {

void NanoAttentionForward(const uint16_t* q, const uint16_t* k, const uint16_t* v, uint16_t* out,
                          float* lse, const int64_t* lens, const float* const* masks,
                          int64_t documents, int64_t heads, float scale) {
  static thread_local Buffers buffers;
  int64_t start = 0;
  for (int64_t d = 0; d < documents; start += lens[d], ++d) {
    for (int64_t h = 0; h < heads; ++h) {
      int64_t at = start * heads + h;
      ForwardOne(q + at * kQk, k + at * kQk, v + at * kV, out + at * kV, lse + at,
                 static_cast<int>(lens[d]), static_cast<int>(heads), scale, masks[d], buffers);
    }
  }
}

void NanoAttentionBackward(const uint16_t* dout, const uint16_t* q, const uint16_t* k,
                           const uint16_t* v, const uint16_t* out, const float* lse, uint16_t* dq,
                           uint16_t* dk, uint16_t* dv, const int64_t* lens,
                           const float* const* masks, int64_t documents, int64_t heads,
                           float scale) {
  static thread_local Buffers buffers;
  int64_t start = 0;
  for (int64_t d = 0; d < documents; start += lens[d], ++d) {
    for (int64_t h = 0; h < heads; ++h) {
      int64_t at = start * heads + h;
      BackwardOne(dout + at * kV, q + at * kQk, k + at * kQk, v + at * kV, out + at * kV, lse + at,
                  dq + at * kQk, dk + at * kQk, dv + at * kV, static_cast<int>(lens[d]),
                  static_cast<int>(heads), scale, masks[d], buffers);
    }
  }
}

// Muon, before: g = sum of the workers' gradients; momentum += (g - momentum) / 20; update = g / 20
// + 0.95 momentum (Nesterov). The scale of a gradient does not matter to Muon. `second` may be
// null.
void NanoMomentum(const uint16_t* first, const uint16_t* second, float* momentum, uint16_t* update,
                  int64_t count) {
  const __m512 keep = _mm512_set1_ps(0.95f), take = _mm512_set1_ps(0.05f);
  for (int64_t i = 0; i < count; i += 16) {
    __m512 g = Load(first + i);
    if (second != nullptr) g = _mm512_add_ps(g, Load(second + i));
    g = _mm512_mul_ps(g, take);
    __m512 m = _mm512_fmadd_ps(_mm512_loadu_ps(momentum + i), keep, g);
    _mm512_storeu_ps(momentum + i, m);
    Store(update + i, _mm512_fmadd_ps(m, keep, g));
  }
}

// Muon, after: master = decay * master - rate * direction, and its bf16 copy.
void NanoApply(float* master, const uint16_t* direction, uint16_t* weight, int64_t count,
               float decay, float rate) {
  const __m512 d = _mm512_set1_ps(decay), r = _mm512_set1_ps(rate);
  for (int64_t i = 0; i < count; i += 16) {
    __m512 x = _mm512_mul_ps(_mm512_loadu_ps(master + i), d);
    x = _mm512_fnmadd_ps(Load(direction + i), r, x);
    _mm512_storeu_ps(master + i, x);
    Store(weight + i, x);
  }
}
}
