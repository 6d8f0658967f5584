// Dense feed-forward network with SwiGLU; also the shared expert.
#pragma once

#include <memory>
#include <string>

#include "quern/model/parts/step.h"
#include "quern/model/weight_loader.h"

namespace quern::model {

class Mlp {
 public:
  // prefix: "model.layers.0.mlp."
  static Result<Mlp> Load(WeightLoader& loader, const std::string& prefix);
  // y = down(silu(gate x) * up x); x, y [tokens, hidden].
  Status Forward(Step& step, const backend::Tensor& x, const backend::Tensor& y) const;

 private:
  std::unique_ptr<backend::LinearWeights> gate_up_, down_;
};

}  // namespace quern::model
