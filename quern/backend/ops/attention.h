// Attention over the paged cache: MLA in absorbed form, and the sparse indexer that chooses what it
// reads.
#pragma once

#include "quern/backend/tensor.h"
#include "quern/base/status.h"

namespace quern::backend {

// Tokens per cache page, and per tile of the online softmax.
inline constexpr int64_t kPageTokens = 64;

// One ragged batch: rows of many sequences, each row one token at one position of its sequence. All
// i32.
//   positions    [tokens]             of the row in its sequence, 0-based
//   sequences    [tokens]             row of page_tables
//   page_tables  [seqs, max_pages]    position p is in pool page page_tables[s, p / 64], slot p %
//   64
// Rows of a sequence stand in ascending position; positions before the first row are in the cache
// already.
struct BatchView {
  Tensor positions, sequences, page_tables;
};

// pool[page of row t, slot] = rows[t]: stores this step's keys before attention reads them.
//   rows  [tokens, n]   pool  [pages, 64, n]; same type
struct CacheWriteArgs {
  Tensor rows;
  BatchView batch;
  Tensor pool;
};
Status Validate(const CacheWriteArgs& args);

// Which past positions attention reads, per row: ascending, `counts[t]` of them.
//   positions  [tokens, top_k] i32   counts  [tokens] i32
struct Selection {
  Tensor positions, counts;
};

// I[t, s] = sum over heads h of relu(q[t, h] . k[s]) * (weights[t, h] * scale), for s <= position
// of t; the selection is the top_k largest (all of them while position < top_k), ties to the lower
// position, listed in ascending position.
//   q  [tokens, heads, d] f32 or bf16   weights  [tokens, heads] f32   keys  [pages, 64, d]
// Order: each dot product one fma per dimension ascending; heads summed in 16 chains (math.h).
// Scores stay f32. Source: DeepSeek-V3.2 (lightning indexer), arXiv 2603.12201 (index sharing).
struct IndexSelectArgs {
  Tensor q, weights;
  float scale = 1.0f;
  Tensor keys;
  BatchView batch;
  Selection out;
};
Status Validate(const IndexSelectArgs& args);

// y[t, h] = sum over j of softmax_j(scale * (q[t, h] . cache[j])) * cache[j][: rank], j over the
// selected positions, or over all positions <= that of t when there is no selection.
//   q  [tokens, heads, rank + rope] f32   cache  [pages, 64, rank + rope]   y  [tokens, heads,
//   rank] f32
// Order: keys in ascending position, in tiles of 64 counted from the first; within a tile scores
// (one fma per dimension), their maximum, p = exp(score - running maximum), sum of p, then one fma
// per key into y; earlier tiles are rescaled by exp(old maximum - new maximum). Divided by the sum
// once at the end. A row reads only its own keys.
struct MlaAttentionArgs {
  Tensor q, cache;
  float scale = 1.0f;
  BatchView batch;
  const Selection* selection = nullptr;
  Tensor y;
};
Status Validate(const MlaAttentionArgs& args);

}  // namespace quern::backend
