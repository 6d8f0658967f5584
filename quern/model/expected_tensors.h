// The names and logical shapes of every tensor a model of the GLM family stores (docs/model.md).
#pragma once

#include <vector>

#include "quern/checkpoint/config.h"
#include "quern/checkpoint/precision_plan.h"

namespace quern::model {

// In file order by layer, MTP layer included. Indexer tensors only on layers whose type is kFull.
// lm_head is left out when embeddings are tied. Count for GLM-5.2: 59,585.
std::vector<checkpoint::ExpectedTensor> ExpectedTensors(const checkpoint::ModelConfig& config);

}  // namespace quern::model
