// One pre-norm decoder layer: attention, then a dense or MoE feed-forward network.
#pragma once

#include <string>
#include <variant>

#include "quern/model/parts/attention.h"
#include "quern/model/parts/moe.h"

namespace quern::model {

class DecoderLayer {
 public:
  // Layer `index` of the checkpoint; num_layers is the MTP layer.
  static Result<DecoderLayer> Load(WeightLoader& loader, const checkpoint::ModelConfig& config,
                                   int64_t index);

  // h [tokens, hidden] is the residual stream, updated in place.
  Status Forward(Step& step, const KvView::Layer& kv, const backend::Tensor& h) const;

 private:
  Vector input_norm_, post_attention_norm_;
  Attention attention_;
  std::variant<Mlp, Moe> mlp_;
};

}  // namespace quern::model
