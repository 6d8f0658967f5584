#include "quern/model/parts/decoder_layer.h"

namespace quern::model {

using backend::Tensor;

Result<DecoderLayer> DecoderLayer::Load(WeightLoader& loader, const checkpoint::ModelConfig& cfg,
                                        int64_t index) {
  DecoderLayer layer;
  const std::string prefix = fmt::format("model.layers.{}.", index);
  const size_t i = static_cast<size_t>(index);
  QUERN_ASSIGN(layer.input_norm_, loader.F32Vector(prefix + "input_layernorm.weight"));
  QUERN_ASSIGN(layer.post_attention_norm_,
               loader.F32Vector(prefix + "post_attention_layernorm.weight"));
  const bool full = cfg.indexer_types[i] == checkpoint::IndexerType::kFull;
  QUERN_ASSIGN(layer.attention_, Attention::Load(loader, cfg, prefix + "self_attn.", full));
  if (cfg.is_moe[i]) {
    QUERN_ASSIGN(layer.mlp_, Moe::Load(loader, cfg, prefix + "mlp."));
  } else {
    QUERN_ASSIGN(layer.mlp_, Mlp::Load(loader, prefix + "mlp."));
  }
  return layer;
}

Status DecoderLayer::Forward(Step& step, const KvView::Layer& kv, const Tensor& h) const {
  Scratch::Frame frame(step.scratch);
  const float eps = step.config.rms_norm_eps;
  QUERN_ASSIGN(const Tensor x,
               step.scratch.Take(step.activation, {step.tokens, step.config.hidden_size}));
  QUERN_ASSIGN(const Tensor y,
               step.scratch.Take(step.activation, {step.tokens, step.config.hidden_size}));

  QUERN_TRY(step.be.RmsNorm({.x = h, .weight = input_norm_.tensor, .eps = eps, .y = x}));
  QUERN_TRY(attention_.Forward(step, x, kv, y));
  QUERN_TRY(step.be.Add({.x = y, .y = h}));

  QUERN_TRY(step.be.RmsNorm({.x = h, .weight = post_attention_norm_.tensor, .eps = eps, .y = x}));
  QUERN_TRY(std::visit([&](const auto& mlp) { return mlp.Forward(step, x, y); }, mlp_));
  return step.be.Add({.x = y, .y = h});
}

}  // namespace quern::model
