#include "quern/model/parts/indexer.h"

#include <cmath>

namespace quern::model {

using backend::Tensor;

Result<Indexer> Indexer::Load(WeightLoader& loader, const std::string& prefix) {
  Indexer ix;
  QUERN_ASSIGN(ix.wq_b_, loader.Linear({prefix + "wq_b"}));
  QUERN_ASSIGN(ix.wk_, loader.Linear({prefix + "wk"}));
  QUERN_ASSIGN(ix.weights_proj_, loader.Linear({prefix + "weights_proj"}));
  QUERN_ASSIGN(ix.k_norm_weight_, loader.F32Vector(prefix + "k_norm.weight"));
  QUERN_ASSIGN(ix.k_norm_bias_, loader.F32Vector(prefix + "k_norm.bias"));
  return ix;
}

Status Indexer::Forward(Step& step, const Tensor& x, const Tensor& qr, const Tensor& keys) const {
  Scratch::Frame frame(step.scratch);
  const checkpoint::ModelConfig& cfg = step.config;
  const int64_t heads = cfg.index_num_heads, dim = cfg.index_head_dim, rope = cfg.qk_rope_head_dim;

  // The key is written whether or not it is scored now: later steps will read it.
  QUERN_ASSIGN(const Tensor k, step.scratch.Take(step.activation, {step.tokens, dim}));
  QUERN_TRY(step.be.Linear({.x = x, .w = *wk_, .y = k}));
  QUERN_TRY(step.be.LayerNorm({.x = k,
                               .weight = k_norm_weight_.tensor,
                               .bias = k_norm_bias_.tensor,
                               .eps = cfg.index_norm_eps,
                               .y = k}));
  const Tensor k_rope = k.SplitLast(1, dim).Columns(0, rope);
  QUERN_TRY(step.be.Rope(
      {.x = k_rope, .table = step.rope, .interleave = cfg.index_rope_interleave, .y = k_rope}));
  QUERN_TRY(step.be.CacheWrite({.rows = k, .batch = step.batch, .pool = keys, .scaled = dim}));
  if (!step.sparse) return OkStatus();

  QUERN_ASSIGN(const Tensor q_flat, step.scratch.Take(step.activation, {step.tokens, heads * dim}));
  QUERN_TRY(step.be.Linear({.x = qr, .w = *wq_b_, .y = q_flat}));
  const Tensor q = q_flat.SplitLast(heads, dim), q_rope = q.Columns(0, rope);
  QUERN_TRY(step.be.Rope(
      {.x = q_rope, .table = step.rope, .interleave = cfg.index_rope_interleave, .y = q_rope}));
  // f32: head weights rounded to bf16 flip near-ties.
  QUERN_ASSIGN(const Tensor weights, step.scratch.Take(Dtype::kF32, {step.tokens, heads}));
  QUERN_TRY(step.be.Linear({.x = x, .w = *weights_proj_, .y = weights}));
  const float scale = 1.0f / std::sqrt(static_cast<float>(heads) * static_cast<float>(dim));
  return step.be.IndexSelect({.q = q,
                              .weights = weights,
                              .scale = scale,
                              .keys = keys,
                              .batch = step.batch,
                              .out = step.selected});
}

}  // namespace quern::model
