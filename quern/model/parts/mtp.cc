#include "quern/model/parts/mtp.h"

namespace quern::model {

using backend::Tensor;

Result<MtpLayer> MtpLayer::Load(WeightLoader& loader, const checkpoint::ModelConfig& cfg,
                                int64_t index) {
  MtpLayer m;
  const std::string prefix = fmt::format("model.layers.{}.", index);
  QUERN_ASSIGN(m.enorm_, loader.F32Vector(prefix + "enorm.weight"));
  QUERN_ASSIGN(m.hnorm_, loader.F32Vector(prefix + "hnorm.weight"));
  QUERN_ASSIGN(m.head_norm_, loader.F32Vector(prefix + "shared_head.norm.weight"));
  QUERN_ASSIGN(m.eh_proj_, loader.Linear({prefix + "eh_proj"}));
  QUERN_ASSIGN(m.layer_, DecoderLayer::Load(loader, cfg, index));
  return m;
}

Status MtpLayer::Forward(Step& step, const KvView::Layer& kv, const Tensor& e, const Tensor& g,
                         const Tensor& r) const {
  Scratch::Frame frame(step.scratch);
  const int64_t hidden = step.config.hidden_size;
  const float eps = step.config.rms_norm_eps;
  QUERN_ASSIGN(const Tensor both, step.scratch.Take(step.activation, {step.tokens, 2 * hidden}));
  QUERN_TRY(
      step.be.RmsNorm({.x = e, .weight = enorm_.tensor, .eps = eps, .y = both.Columns(0, hidden)}));
  QUERN_TRY(step.be.RmsNorm(
      {.x = g, .weight = hnorm_.tensor, .eps = eps, .y = both.Columns(hidden, hidden)}));
  QUERN_ASSIGN(const Tensor u, step.scratch.Take(step.activation, {step.tokens, hidden}));
  QUERN_TRY(step.be.Linear({.x = both, .w = *eh_proj_, .y = u}));
  QUERN_TRY(layer_.Forward(step, kv, u));
  return step.be.RmsNorm({.x = u, .weight = head_norm_.tensor, .eps = eps, .y = r});
}

}  // namespace quern::model
