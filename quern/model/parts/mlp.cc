#include "quern/model/parts/mlp.h"

namespace quern::model {

using backend::Tensor;

Result<Mlp> Mlp::Load(WeightLoader& loader, const std::string& prefix) {
  Mlp mlp;
  QUERN_ASSIGN(mlp.gate_up_, loader.Linear({prefix + "gate_proj", prefix + "up_proj"}));
  QUERN_ASSIGN(mlp.down_, loader.Linear({prefix + "down_proj"}));
  return mlp;
}

Status Mlp::Forward(Step& step, const Tensor& x, const Tensor& y) const {
  Scratch::Frame frame(step.scratch);
  const int64_t inter = down_->cols();
  QUERN_ASSIGN(const Tensor gate_up, step.scratch.Take(step.activation, {x.dim(0), 2 * inter}));
  QUERN_TRY(step.be.Linear({.x = x, .w = *gate_up_, .y = gate_up}));
  QUERN_ASSIGN(const Tensor act, step.scratch.Take(step.activation, {x.dim(0), inter}));
  QUERN_TRY(step.be.SwiGlu({.gate_up = gate_up, .y = act}));
  return step.be.Linear({.x = act, .w = *down_, .y = y});
}

}  // namespace quern::model
