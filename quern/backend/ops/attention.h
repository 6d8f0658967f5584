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

// How a pool stores a row of n elements, told by its element type:
//   f32, bf16  as they are, rounded to the type.
//   F8_E4M3    one code per element, value = code: the scale is 1, values saturate at +-448.
//   U8         the first `scaled` elements as E4M3 codes; an f32 scale per 128 of them; the others
//              in bf16. scale = max(largest magnitude, 1e-4) / 448, code = E4M3(value / scale),
//              value = code * scale. This is the row of 656 bytes that FlashMLA's sparse kernels
//              read (512 latent elements, 64 rope), and with n = scaled the index key of 132 bytes.
inline constexpr int64_t kKeyScaleGroup = 128;
inline int64_t KeyRowElements(Dtype pool, int64_t n, int64_t scaled) {
  if (pool != Dtype::kU8) return n;
  const int64_t groups = (scaled + kKeyScaleGroup - 1) / kKeyScaleGroup;
  return scaled + groups * 4 + (n - scaled) * 2;
}

// pool[page of row t, slot] = rows[t]: stores this step's keys before attention reads them.
//   rows  [tokens, n] f32 or bf16   pool  [pages, 64, KeyRowElements]
struct CacheWriteArgs {
  Tensor rows;
  BatchView batch;
  Tensor pool;
  int64_t scaled = 0;  // for a U8 pool: elements with scales
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
//   q  [tokens, heads, d] f32 or bf16   weights  [tokens, heads] f32   keys  a pool of rows of d
//   elements (all of them scaled, if U8)
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
//   q  [tokens, heads, rank + rope] f32   cache  a pool of rows of rank + rope elements (rank of
//   them scaled, if U8)   y  [tokens, heads, rank] f32
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
