// The GLM family on one graph: glm_moe_dsa (GLM-5, 5.1, 5.2, 5.3: latent attention, sparse indexer,
// mixture of experts) and glm4_moe_lite (GLM-4.7-Flash: the same blocks without the indexer). Facts
// and formulas: docs/model.md.
#pragma once

#include "quern/model/model.h"
#include "quern/model/weight_loader.h"

namespace quern::model {

Result<std::unique_ptr<Model>> LoadGlm(const checkpoint::ModelConfig& config, WeightLoader& loader,
                                       backend::Backend& backend);

}  // namespace quern::model
