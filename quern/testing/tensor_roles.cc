#include "quern/testing/tensor_roles.h"

#include <string_view>

namespace quern::testing {

Role RoleOf(const checkpoint::ExpectedTensor& tensor) {
  const std::string_view name = tensor.name;
  const auto has = [name](std::string_view part) {
    return name.find(part) != std::string_view::npos;
  };
  if (has("e_score_correction_bias")) return Role::kRouterBias;
  if (tensor.shape.size() == 1) return Role::kNorm;
  if (has("embed_tokens")) return Role::kEmbedding;
  if (has("lm_head")) return Role::kLmHead;
  if (has("eh_proj")) return Role::kEhProj;
  if (has(".indexer.weights_proj")) return Role::kIndexWeights;
  if (has(".indexer.")) return Role::kIndexer;
  if (has(".self_attn.")) return Role::kAttention;
  if (has(".mlp.experts.")) return Role::kRoutedExpert;
  if (has(".mlp.shared_experts.")) return Role::kSharedExpert;
  if (has(".mlp.gate.")) return Role::kRouter;
  return Role::kDenseMlp;
}

std::string ModuleOf(const std::string& tensor_name) {
  constexpr std::string_view kEnd = ".weight";
  const bool ends = tensor_name.size() > kEnd.size() &&
                    std::string_view(tensor_name).substr(tensor_name.size() - kEnd.size()) == kEnd;
  return ends ? tensor_name.substr(0, tensor_name.size() - kEnd.size()) : tensor_name;
}

}  // namespace quern::testing
