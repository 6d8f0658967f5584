// The lightning indexer of sparse attention (DeepSeek-V3.2; shared between layers as in arXiv
// 2603.12201).
#pragma once

#include <memory>
#include <string>

#include "quern/model/parts/step.h"
#include "quern/model/weight_loader.h"

namespace quern::model {

class Indexer {
 public:
  static Result<Indexer> Load(WeightLoader& loader, const std::string& prefix);

  // Writes the index keys of x to `keys`, and, when some row sees more than index_topk positions,
  // its selection to step.selected.
  //   x [tokens, hidden] normed input   qr [tokens, q_lora_rank] normed query latent
  Status Forward(Step& step, const backend::Tensor& x, const backend::Tensor& qr,
                 const backend::Tensor& keys) const;

 private:
  std::unique_ptr<backend::LinearWeights> wq_b_, wk_, weights_proj_;
  Vector k_norm_weight_, k_norm_bias_;
};

}  // namespace quern::model
