// What part of the model a checkpoint name belongs to, for choosing how a layout stores it.
#pragma once

#include <string>

#include "quern/checkpoint/precision_plan.h"

namespace quern::testing {

enum class Role {
  kEmbedding,
  kNorm,  // and other vectors
  kAttention,
  kIndexer,       // wq_b and wk
  kIndexWeights,  // weights_proj
  kDenseMlp,
  kRouter,
  kRouterBias,
  kRoutedExpert,
  kSharedExpert,
  kEhProj,
  kLmHead,
};

Role RoleOf(const checkpoint::ExpectedTensor& tensor);

// "model.layers.3.mlp.gate" of "model.layers.3.mlp.gate.weight"; other endings stay.
std::string ModuleOf(const std::string& tensor_name);

}  // namespace quern::testing
