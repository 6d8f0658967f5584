// The meaning of each op in plain loops over host memory. The ref backend is made of these; the cpu
// backend uses those that are not worth a faster version.
#pragma once

#include "quern/backend/backend.h"

namespace quern::backend::ref {

void RmsNorm(const RmsNormArgs& args);
void LayerNorm(const LayerNormArgs& args);
void Add(const AddArgs& args);
void RopeTable(const RopeTableArgs& args);
void Rope(const RopeArgs& args);
// kInternal when a logit is NaN: the model's numbers overflowed.
Status Route(const RouteArgs& args);
void GatherRows(const GatherRowsArgs& args);
void ScatterRows(const ScatterRowsArgs& args);
void SwiGlu(const SwiGluArgs& args);
void Combine(const CombineArgs& args);
void CacheWrite(const CacheWriteArgs& args);
// The n elements of a pool's row; `scaled` as in CacheWriteArgs.
void LoadKeyRow(Dtype pool, const void* row, int64_t n, int64_t scaled, float* out);
void IndexSelect(const IndexSelectArgs& args);
void MlaAttention(const MlaAttentionArgs& args);

// The selection rule alone: writes the min(top_k, count) positions with the largest scores, ties to
// the lower, in ascending order; returns how many. `scratch` holds at least `count` entries. NaN
// scores count as the lowest.
int64_t SelectTopK(const float* scores, int64_t count, int64_t top_k, int32_t* scratch,
                   int32_t* out);

// Attention in the plain form, K and V expanded per head as the papers write it, for tests of the
// absorbed form:
//   q [heads, nope + rope] f32 of one token, kv_b [heads * (nope + v), rank] f32, rows [keys][rank
//   + rope] f32 y [heads, v]
void PlainMla(const float* q, const float* kv_b, const float* rows, int64_t keys, int64_t heads,
              int64_t nope, int64_t rope, int64_t v, int64_t rank, float scale, float* y);

}  // namespace quern::backend::ref
