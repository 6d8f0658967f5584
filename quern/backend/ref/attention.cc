#include <algorithm>
#include <cmath>
#include <vector>

#include "quern/backend/host/host_memory.h"
#include "quern/backend/math.h"
#include "quern/backend/ref/ref_ops.h"

namespace quern::backend::ref {
using host::CacheRow;
using host::I32;
using host::LoadF32;
using host::RowPtr;
using host::RowVoid;

void CacheWrite(const CacheWriteArgs& a) {
  const size_t bytes = static_cast<size_t>(a.rows.dim(1) * DtypeBytes(a.rows.dtype));
  for (int64_t t = 0; t < a.rows.dim(0); ++t) {
    std::memcpy(CacheRow(a.pool, a.batch, t, I32(a.batch.positions, t)), RowVoid(a.rows, t), bytes);
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
  for (int64_t t = 0; t < a.q.dim(0); ++t) {
    const int64_t count = I32(a.batch.positions, t) + 1;
    scores.resize(static_cast<size_t>(count));
    scratch.resize(static_cast<size_t>(count));
    const float* weights = RowPtr<float>(a.weights, t);
    for (int64_t s = 0; s < count && count > top_k; ++s) {
      const void* key = CacheRow(a.keys, a.batch, t, s);
      float lanes[kSumLanes] = {};
      for (int64_t h = 0; h < heads; ++h) {
        float dot = 0.0f;
        for (int64_t d = 0; d < dim; ++d) {
          dot = std::fma(LoadF32(a.keys.dtype, key, d), LoadF32(a.q.dtype, RowVoid(a.q, t, h), d),
                         dot);
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

// One head of one token over `keys` rows; rows[j] points at cache row j.
void AttendHead(const MlaAttentionArgs& a, const float* q, const std::vector<const void*>& rows,
                float* y) {
  const int64_t width = a.q.dim(2), rank = a.y.dim(2);
  const int64_t keys = static_cast<int64_t>(rows.size());
  std::fill(y, y + rank, 0.0f);
  float running_max = -INFINITY, sum = 0.0f;
  for (int64_t begin = 0; begin < keys; begin += kPageTokens) {
    const int64_t n = std::min(kPageTokens, keys - begin);
    float p[kPageTokens];
    float tile_max = running_max;
    for (int64_t j = 0; j < n; ++j) {
      float dot = 0.0f;
      for (int64_t d = 0; d < width; ++d) {
        dot = std::fma(LoadF32(a.cache.dtype, rows[static_cast<size_t>(begin + j)], d), q[d], dot);
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
        y[c] =
            std::fma(LoadF32(a.cache.dtype, rows[static_cast<size_t>(begin + j)], c), p[j], y[c]);
      }
    }
    running_max = tile_max;
  }
  for (int64_t c = 0; c < rank; ++c) y[c] = y[c] / sum;
}

}  // namespace

void MlaAttention(const MlaAttentionArgs& a) {
  std::vector<const void*> rows;
  for (int64_t t = 0; t < a.q.dim(0); ++t) {
    const int64_t keys =
        a.selection != nullptr ? I32(a.selection->counts, t) : I32(a.batch.positions, t) + 1;
    rows.resize(static_cast<size_t>(keys));
    for (int64_t j = 0; j < keys; ++j) {
      const int64_t p = a.selection != nullptr ? I32(a.selection->positions, t, j) : j;
      rows[static_cast<size_t>(j)] = CacheRow(a.cache, a.batch, t, p);
    }
    for (int64_t h = 0; h < a.q.dim(1); ++h)
      AttendHead(a, RowPtr<float>(a.q, t, h), rows, RowPtr<float>(a.y, t, h));
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
