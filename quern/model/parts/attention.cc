#include "quern/model/parts/attention.h"

#include <cmath>

namespace quern::model {

using backend::Tensor;

Result<Attention> Attention::Load(WeightLoader& loader, const checkpoint::ModelConfig& cfg,
                                  const std::string& prefix, bool has_indexer) {
  Attention a;
  const int64_t nope = cfg.qk_nope_head_dim, head_rows = nope + cfg.v_head_dim;
  const std::string kv_b = prefix + "kv_b_proj";
  QUERN_ASSIGN(a.qkv_a_, loader.Linear({prefix + "q_a_proj", prefix + "kv_a_proj_with_mqa"}));
  QUERN_ASSIGN(a.q_b_, loader.Linear({prefix + "q_b_proj"}));
  QUERN_ASSIGN(a.w_uk_t_,
               loader.Heads(kv_b, cfg.num_heads, head_rows, 0, nope, /*transpose=*/true, false));
  QUERN_ASSIGN(a.w_uv_, loader.Heads(kv_b, cfg.num_heads, head_rows, nope, cfg.v_head_dim, false,
                                     /*last=*/true));
  QUERN_ASSIGN(a.o_, loader.Linear({prefix + "o_proj"}));
  QUERN_ASSIGN(a.q_norm_, loader.F32Vector(prefix + "q_a_layernorm.weight"));
  QUERN_ASSIGN(a.kv_norm_, loader.F32Vector(prefix + "kv_a_layernorm.weight"));
  if (has_indexer) {
    QUERN_ASSIGN(a.indexer_, Indexer::Load(loader, prefix + "indexer."));
  }
  return a;
}

// Cache row [latent | rope key]: the norm covers the latent only, one rope key serves all heads.
Status Attention::WriteKeys(Step& step, const Tensor& kv_row, const Tensor& pool) const {
  const checkpoint::ModelConfig& cfg = step.config;
  const Tensor latent = kv_row.Columns(0, cfg.kv_lora_rank);
  const Tensor k_rope =
      kv_row.Columns(cfg.kv_lora_rank, cfg.qk_rope_head_dim).SplitLast(1, cfg.qk_rope_head_dim);
  QUERN_TRY(step.be.RmsNorm(
      {.x = latent, .weight = kv_norm_.tensor, .eps = cfg.latent_norm_eps, .y = latent}));
  QUERN_TRY(step.be.Rope(
      {.x = k_rope, .table = step.rope, .interleave = cfg.rope_interleave, .y = k_rope}));
  return step.be.CacheWrite(
      {.rows = kv_row, .batch = step.batch, .pool = pool, .scaled = cfg.kv_lora_rank});
}

Status Attention::Forward(Step& step, const Tensor& x, const KvView::Layer& kv,
                          const Tensor& y) const {
  Scratch::Frame frame(step.scratch);
  const checkpoint::ModelConfig& cfg = step.config;
  backend::Backend& be = step.be;
  const int64_t heads = cfg.num_heads, nope = cfg.qk_nope_head_dim, rope = cfg.qk_rope_head_dim;
  const int64_t rank = cfg.kv_lora_rank, q_rank = cfg.q_lora_rank, v_dim = cfg.v_head_dim;

  QUERN_ASSIGN(const Tensor qkv_a,
               step.scratch.Take(step.activation, {step.tokens, q_rank + rank + rope}));
  QUERN_TRY(be.Linear({.x = x, .w = *qkv_a_, .y = qkv_a}));

  if (!step.reads_only) {
    QUERN_TRY(WriteKeys(step, qkv_a.Columns(q_rank, rank + rope), kv.latent));
  }
  const Tensor qr = qkv_a.Columns(0, q_rank);
  QUERN_TRY(be.RmsNorm({.x = qr, .weight = q_norm_.tensor, .eps = cfg.latent_norm_eps, .y = qr}));
  if (indexer_ && !step.reads_only) QUERN_TRY(indexer_->Forward(step, x, qr, kv.index_keys));

  QUERN_ASSIGN(const Tensor q_flat,
               step.scratch.Take(step.activation, {step.tokens, heads * (nope + rope)}));
  QUERN_TRY(be.Linear({.x = qr, .w = *q_b_, .y = q_flat}));
  const Tensor q = q_flat.SplitLast(heads, nope + rope);

  // Queries against cache rows: [q_nope W_UK | rope(q_pe)], kept in f32.
  QUERN_ASSIGN(const Tensor absorbed,
               step.scratch.Take(Dtype::kF32, {step.tokens, heads, rank + rope}));
  QUERN_TRY(
      be.HeadLinear({.x = q.Columns(0, nope), .w = *w_uk_t_, .y = absorbed.Columns(0, rank)}));
  QUERN_TRY(be.Rope({.x = q.Columns(nope, rope),
                     .table = step.rope,
                     .interleave = cfg.rope_interleave,
                     .y = absorbed.Columns(rank, rope)}));

  QUERN_ASSIGN(const Tensor z, step.scratch.Take(Dtype::kF32, {step.tokens, heads, rank}));
  const float scale = 1.0f / std::sqrt(static_cast<float>(cfg.qk_head_dim()));
  QUERN_TRY(be.MlaAttention({.q = absorbed,
                             .cache = kv.latent,
                             .scale = scale,
                             .batch = step.batch,
                             .selection = step.sparse ? &step.selected : nullptr,
                             .y = z}));

  QUERN_ASSIGN(const Tensor out, step.scratch.Take(step.activation, {step.tokens, heads * v_dim}));
  QUERN_TRY(be.HeadLinear({.x = z, .w = *w_uv_, .y = out.SplitLast(heads, v_dim)}));
  return be.Linear({.x = out, .w = *o_, .y = y});
}

}  // namespace quern::model
