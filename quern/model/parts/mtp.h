// The multi-token-prediction layer: from a token and the hidden state before it to the token after
// it.
#pragma once

#include "quern/model/parts/decoder_layer.h"

namespace quern::model {

// u = layer(eh_proj([enorm(e) | hnorm(g)])); r = shared_head.norm(u). The row of position p pairs
// e = embed[x_p] with g = the hidden state (after the last norm) of p - 1, zeros for p = 0, and
// speaks of x_{p+1}. With this pairing a row depends on tokens up to p only, so its key can be
// shared with the page of p; the layer was trained on relative positions, so counting from p
// instead of p - 1 changes nothing. Source: GLM-4.5 report, arXiv 2508.06471; DeepSeek-V3, arXiv
// 2412.19437, 2.2.
class MtpLayer {
 public:
  // `index` is the layer's number in the checkpoint: num_layers.
  static Result<MtpLayer> Load(WeightLoader& loader, const checkpoint::ModelConfig& config,
                               int64_t index);

  // e, g, r [tokens, hidden]; r must not overlap the others.
  Status Forward(Step& step, const KvView::Layer& kv, const backend::Tensor& e,
                 const backend::Tensor& g, const backend::Tensor& r) const;

 private:
  Vector enorm_, hnorm_, head_norm_;
  std::unique_ptr<backend::LinearWeights> eh_proj_;
  DecoderLayer layer_;
};

}  // namespace quern::model
