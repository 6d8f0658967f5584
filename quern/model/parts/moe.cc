#include "quern/model/parts/moe.h"

namespace quern::model {

using backend::Tensor;

Result<Moe> Moe::Load(WeightLoader& loader, const checkpoint::ModelConfig& cfg,
                      const std::string& prefix) {
  Moe moe;
  QUERN_ASSIGN(moe.router_, loader.Linear({prefix + "gate"}));
  QUERN_ASSIGN(moe.score_bias_, loader.F32Vector(prefix + "gate.e_score_correction_bias"));
  QUERN_ASSIGN(moe.gate_up_, loader.Experts(prefix, cfg.num_experts, {"gate_proj", "up_proj"}));
  QUERN_ASSIGN(moe.down_, loader.Experts(prefix, cfg.num_experts, {"down_proj"}));
  QUERN_ASSIGN(moe.shared_, Mlp::Load(loader, prefix + "shared_experts."));
  return moe;
}

Status Moe::Forward(Step& step, const Tensor& x, const Tensor& y) const {
  Scratch::Frame frame(step.scratch);
  const checkpoint::ModelConfig& cfg = step.config;
  backend::Backend& be = step.be;
  Scratch& scratch = step.scratch;
  const int64_t tokens = x.dim(0), slots = cfg.experts_per_token, rows = tokens * slots;
  const int64_t inter = cfg.moe_intermediate_size, hidden = cfg.hidden_size;

  // Route in f32: a tie broken differently picks another expert, not a slightly wrong number.
  QUERN_ASSIGN(const Tensor logits, scratch.Take(Dtype::kF32, {tokens, cfg.num_experts}));
  QUERN_TRY(be.Linear({.x = x, .w = *router_, .y = logits}));
  backend::Routes routes;
  QUERN_ASSIGN(routes.experts, scratch.Take(Dtype::kI32, {tokens, slots}));
  QUERN_ASSIGN(routes.weights, scratch.Take(Dtype::kF32, {tokens, slots}));
  QUERN_ASSIGN(routes.offsets, scratch.Take(Dtype::kI32, {cfg.num_experts + 1}));
  QUERN_ASSIGN(routes.tokens, scratch.Take(Dtype::kI32, {rows}));
  QUERN_ASSIGN(routes.row_of, scratch.Take(Dtype::kI32, {tokens, slots}));
  QUERN_TRY(be.Route({.logits = logits,
                      .bias = score_bias_.tensor,
                      .normalize = cfg.norm_topk_prob,
                      .scale = cfg.routed_scaling_factor,
                      .out = routes}));

  // Rows sorted by expert, so each expert's weights are read once per step.
  QUERN_ASSIGN(const Tensor in, scratch.Take(step.activation, {rows, hidden}));
  QUERN_TRY(be.GatherRows({.x = x, .rows = routes.tokens, .y = in}));
  QUERN_ASSIGN(const Tensor gate_up, scratch.Take(step.activation, {rows, 2 * inter}));
  QUERN_TRY(be.MoeGemm({.x = in, .w = *gate_up_, .routes = routes, .y = gate_up}));
  QUERN_ASSIGN(const Tensor act, scratch.Take(step.activation, {rows, inter}));
  QUERN_TRY(be.SwiGlu({.gate_up = gate_up, .y = act}));
  QUERN_ASSIGN(const Tensor out, scratch.Take(step.activation, {rows, hidden}));
  QUERN_TRY(be.MoeGemm({.x = act, .w = *down_, .routes = routes, .y = out}));
  QUERN_TRY(be.Combine({.rows = out, .routes = routes, .y = y}));

  QUERN_ASSIGN(const Tensor shared, scratch.Take(step.activation, {tokens, hidden}));
  QUERN_TRY(shared_.Forward(step, x, shared));
  return be.Add({.x = shared, .y = y});
}

}  // namespace quern::model
