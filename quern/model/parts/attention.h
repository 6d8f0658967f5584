// Multi-head latent attention, absorbed form for every row (docs/decisions/0002-one-mla-form.md).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "quern/model/parts/indexer.h"

namespace quern::model {

class Attention {
 public:
  // prefix: "model.layers.3.self_attn."
  static Result<Attention> Load(WeightLoader& loader, const checkpoint::ModelConfig& config,
                                const std::string& prefix, bool has_indexer);

  // y [tokens, hidden] = attention over the cache and x itself; x [tokens, hidden] is the normed
  // input.
  Status Forward(Step& step, const backend::Tensor& x, const KvView::Layer& kv,
                 const backend::Tensor& y) const;

 private:
  Status WriteKeys(Step& step, const backend::Tensor& kv_row, const backend::Tensor& pool) const;

  std::unique_ptr<backend::LinearWeights> qkv_a_, q_b_,
      o_;  // qkv_a: q_a_proj over kv_a_proj_with_mqa
  std::unique_ptr<backend::HeadWeights> w_uk_t_,
      w_uv_;  // halves of kv_b_proj per head; the first transposed
  Vector q_norm_, kv_norm_;
  std::optional<Indexer> indexer_;  // full layers only
};

}  // namespace quern::model
