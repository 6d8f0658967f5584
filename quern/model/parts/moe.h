// Mixture of experts: sigmoid router with score bias, routed experts, shared expert.
#pragma once

#include <memory>
#include <string>

#include "quern/model/parts/mlp.h"

namespace quern::model {

class Moe {
 public:
  // prefix: "model.layers.3.mlp."
  static Result<Moe> Load(WeightLoader& loader, const checkpoint::ModelConfig& config,
                          const std::string& prefix);
  // y = sum of routed experts + shared expert; x, y [tokens, hidden].
  Status Forward(Step& step, const backend::Tensor& x, const backend::Tensor& y) const;

 private:
  std::unique_ptr<backend::LinearWeights> router_;
  Vector score_bias_;  // f32 from file to compare: bf16 would merge most of its values
  std::unique_ptr<backend::ExpertWeights> gate_up_, down_;
  Mlp shared_;
};

}  // namespace quern::model
