// What the parts of one step share.
#pragma once

#include "quern/backend/backend.h"
#include "quern/checkpoint/config.h"
#include "quern/model/model.h"
#include "quern/model/scratch.h"

namespace quern::model {

struct Step {
  Step(backend::Backend& backend, Scratch& memory, const checkpoint::ModelConfig& model_config,
       int64_t num_tokens)
      : be(backend), scratch(memory), config(model_config), tokens(num_tokens) {}

  backend::Backend& be;
  Scratch& scratch;
  const checkpoint::ModelConfig& config;
  // The residual stream and what flows between ops; f16 checkpoints compute in f32.
  const Dtype activation = config.dtype == Dtype::kBf16 ? Dtype::kBf16 : Dtype::kF32;
  const int64_t tokens;  // rows of the batch
  backend::BatchView batch;
  backend::Tensor rope;         // RopeTable of the rows
  bool sparse = false;          // some row sees more than index_topk positions
  backend::Selection selected;  // of the nearest earlier full layer; valid when sparse
  // The rows only read the cache: no keys are written, and `selected` is given.
  bool reads_only = false;
};

}  // namespace quern::model
