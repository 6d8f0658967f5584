#include <algorithm>
#include <cmath>
#include <vector>

#include "quern/backend/host/host_memory.h"
#include "quern/backend/math.h"
#include "quern/backend/ref/ref_ops.h"
#include "quern/numerics/e4m3.h"

namespace quern::backend::ref {
using host::CacheRow;
using host::I32;
using host::LoadF32;
using host::RowPtr;
using host::RowVoid;

namespace {

// Scaled elements, then bf16: see KeyRowElements.
void StoreScaledRow(const float* x, int64_t n, int64_t scaled, uint8_t* row) {
  for (int64_t begin = 0, g = 0; begin < scaled; begin += kKeyScaleGroup, ++g) {
    const int64_t end = std::min(begin + kKeyScaleGroup, scaled);
    float largest = 1e-4f;
    for (int64_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(x[i]));
    const float scale = largest / kE4M3Max;
    for (int64_t i = begin; i < end; ++i) row[i] = F32ToE4M3(x[i] / scale);
    std::memcpy(row + scaled + g * 4, &scale, 4);
  }
  uint8_t* rest = row + KeyRowElements(Dtype::kU8, scaled, scaled);
  for (int64_t i = scaled; i < n; ++i) {
    const uint16_t bits = F32ToBf16(x[i]);
    std::memcpy(rest + (i - scaled) * 2, &bits, 2);
  }
}

}  // namespace

void CacheWrite(const CacheWriteArgs& a) {
  const int64_t n = a.rows.dim(1);
  std::vector<float> x(static_cast<size_t>(n));
  for (int64_t t = 0; t < a.rows.dim(0); ++t) {
    void* out = CacheRow(a.pool, a.batch, t, I32(a.batch.positions, t));
    if (a.pool.dtype == a.rows.dtype) {
      std::memcpy(out, RowVoid(a.rows, t), static_cast<size_t>(n * DtypeBytes(a.rows.dtype)));
      continue;
    }
    for (int64_t i = 0; i < n; ++i)
      x[static_cast<size_t>(i)] = LoadF32(a.rows.dtype, RowVoid(a.rows, t), i);
    if (a.pool.dtype == Dtype::kU8) {
      StoreScaledRow(x.data(), n, a.scaled, static_cast<uint8_t*>(out));
    } else if (a.pool.dtype == Dtype::kF8E4M3) {
      for (int64_t i = 0; i < n; ++i)
        static_cast<uint8_t*>(out)[i] = F32ToE4M3(x[static_cast<size_t>(i)]);
    } else {
      for (int64_t i = 0; i < n; ++i)
        host::StoreF32(a.pool.dtype, out, i, x[static_cast<size_t>(i)]);
    }
  }
}

void LoadKeyRow(Dtype pool, const void* row, int64_t n, int64_t scaled, float* out) {
  const uint8_t* codes = static_cast<const uint8_t*>(row);
  if (pool == Dtype::kF8E4M3) {
    for (int64_t i = 0; i < n; ++i) out[i] = E4M3ToF32(codes[i]);
  } else if (pool == Dtype::kU8) {
    for (int64_t i = 0; i < scaled; ++i) {
      float scale;
      std::memcpy(&scale, codes + scaled + i / kKeyScaleGroup * 4, 4);
      out[i] = E4M3ToF32(codes[i]) * scale;
    }
    const uint8_t* rest = codes + KeyRowElements(Dtype::kU8, scaled, scaled);
    for (int64_t i = scaled; i < n; ++i) {
      uint16_t bits;
      std::memcpy(&bits, rest + (i - scaled) * 2, 2);
      out[i] = Bf16ToF32(bits);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = LoadF32(pool, row, i);
  }
}

int64_t SelectTopK(const float* scores, int64_t count, int64_t top_k, int32_t* scratch,
                   int32_t* out) {
  const int64_t n = std::min(count, top_k);
  for (int64_t i = 0; i < count; ++i) scratch[i] = static_cast<int32_t>(i);
  if (n < count) {
    const auto better = [scores](int32_t i, int32_t j) {
      const float a = std::isnan(scores[i]) ? -INFINITY : scores[i];
      const float b = std::isnan(scores[j]) ? -INFINITY : scores[j];
      return a != b ? a > b : i < j;
    };
    std::nth_element(scratch, scratch + n, scratch + count, better);
    std::sort(scratch, scratch + n);
  }
  std::copy(scratch, scratch + n, out);
  return n;
}

void IndexSelect(const IndexSelectArgs& a) {
  const int64_t heads = a.q.dim(1), dim = a.q.dim(2), top_k = a.out.positions.dim(1);
  std::vector<float> scores;
  std::vector<int32_t> scratch;
  std::vector<float> key(static_cast<size_t>(dim));
  for (int64_t t = 0; t < a.q.dim(0); ++t) {
    const int64_t count = I32(a.batch.positions, t) + 1;
    scores.resize(static_cast<size_t>(count));
    scratch.resize(static_cast<size_t>(count));
    const float* weights = RowPtr<float>(a.weights, t);
    for (int64_t s = 0; s < count && count > top_k; ++s) {
      LoadKeyRow(a.keys.dtype, CacheRow(a.keys, a.batch, t, s), dim, dim, key.data());
      float lanes[kSumLanes] = {};
      for (int64_t h = 0; h < heads; ++h) {
        float dot = 0.0f;
        for (int64_t d = 0; d < dim; ++d) {
          dot =
              std::fma(key[static_cast<size_t>(d)], LoadF32(a.q.dtype, RowVoid(a.q, t, h), d), dot);
        }
        const float relu = dot > 0.0f ? dot : 0.0f;
        lanes[h % kSumLanes] = std::fma(relu, weights[h] * a.scale, lanes[h % kSumLanes]);
      }
      scores[static_cast<size_t>(s)] = ReduceLanes(lanes);
    }
    static_cast<int32_t*>(a.out.counts.data)[t] = static_cast<int32_t>(SelectTopK(
        scores.data(), count, top_k, scratch.data(), RowPtr<int32_t>(a.out.positions, t)));
  }
}

namespace {

// One head of one token over `keys` rows [keys, width].
void AttendHead(const MlaAttentionArgs& a, const float* q, const float* rows, int64_t keys,
                float* y) {
  const int64_t width = a.q.dim(2), rank = a.y.dim(2);
  std::fill(y, y + rank, 0.0f);
  float running_max = -INFINITY, sum = 0.0f;
  for (int64_t begin = 0; begin < keys; begin += kPageTokens) {
    const int64_t n = std::min(kPageTokens, keys - begin);
    float p[kPageTokens];
    float tile_max = running_max;
    for (int64_t j = 0; j < n; ++j) {
      float dot = 0.0f;
      for (int64_t d = 0; d < width; ++d) {
        dot = std::fma(rows[(begin + j) * width + d], q[d], dot);
      }
      p[j] = dot * a.scale;
      tile_max = p[j] > tile_max ? p[j] : tile_max;
    }
    const float rescale = Exp(running_max - tile_max);
    sum = sum * rescale;
    for (int64_t j = 0; j < n; ++j) {
      p[j] = Exp(p[j] - tile_max);
      sum += p[j];
    }
    for (int64_t c = 0; c < rank; ++c) {
      y[c] = y[c] * rescale;
      for (int64_t j = 0; j < n; ++j) {
        y[c] = std::fma(rows[(begin + j) * width + c], p[j], y[c]);
      }
    }
    running_max = tile_max;
  }
  for (int64_t c = 0; c < rank; ++c) y[c] = y[c] / sum;
}

}  // namespace

void MlaAttention(const MlaAttentionArgs& a) {
  const int64_t width = a.q.dim(2);
  std::vector<float> rows;
  for (int64_t t = 0; t < a.q.dim(0); ++t) {
    const int64_t keys =
        a.selection != nullptr ? I32(a.selection->counts, t) : I32(a.batch.positions, t) + 1;
    rows.resize(static_cast<size_t>(keys * width));
    for (int64_t j = 0; j < keys; ++j) {
      const int64_t p = a.selection != nullptr ? I32(a.selection->positions, t, j) : j;
      LoadKeyRow(a.cache.dtype, CacheRow(a.cache, a.batch, t, p), width, a.y.dim(2),
                 rows.data() + j * width);
    }
    for (int64_t h = 0; h < a.q.dim(1); ++h)
      AttendHead(a, RowPtr<float>(a.q, t, h), rows.data(), keys, RowPtr<float>(a.y, t, h));
  }
}

void PlainMla(const float* q, const float* kv_b, const float* rows, int64_t keys, int64_t heads,
              int64_t nope, int64_t rope, int64_t v, int64_t rank, float scale, float* y) {
  const int64_t width = rank + rope;
  std::vector<double> p(static_cast<size_t>(keys));
  for (int64_t h = 0; h < heads; ++h) {
    const float* qh = q + h * (nope + rope);
    const float* w = kv_b + h * (nope + v) * rank;
    double largest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < keys; ++j) {
      const float* c = rows + j * width;
      double s = 0;
      for (int64_t i = 0; i < nope; ++i) {  // expanded key: k_nope = W_UK c
        double k = 0;
        for (int64_t r = 0; r < rank; ++r) k += static_cast<double>(w[i * rank + r]) * c[r];
        s += k * qh[i];
      }
      for (int64_t i = 0; i < rope; ++i) s += static_cast<double>(c[rank + i]) * qh[nope + i];
      p[static_cast<size_t>(j)] = s * scale;
      largest = std::max(largest, s * scale);
    }
    for (double& s : p) sum += (s = std::exp(s - largest));
    for (int64_t i = 0; i < v; ++i) {  // expanded value: v = W_UV c
      double out = 0;
      for (int64_t j = 0; j < keys; ++j) {
        double value = 0;
        for (int64_t r = 0; r < rank; ++r)
          value += static_cast<double>(w[(nope + i) * rank + r]) * rows[j * width + r];
        out += p[static_cast<size_t>(j)] / sum * value;
      }
      y[h * v + i] = static_cast<float>(out);
    }
  }
}

}  // namespace quern::backend::ref
