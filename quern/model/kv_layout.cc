#include "quern/backend/ops/attention.h"
#include "quern/model/model.h"

namespace quern::model {

int64_t KvLayout::bytes_per_page() const {
  return backend::kPageTokens * bytes_per_token() + tail_dim * DtypeBytes(dtype);
}

int64_t KvLayout::bytes_per_token() const {
  int64_t elements = 0;
  for (const Layer& layer : layers) elements += layer.latent_dim + layer.index_key_dim;
  return elements * DtypeBytes(dtype);
}

KvLayout MakeKvLayout(const checkpoint::ModelConfig& config, bool with_mtp) {
  KvLayout layout;
  // The cache holds what the activations hold: rounding keys further would change tokens.
  layout.dtype = config.dtype == Dtype::kBf16 ? Dtype::kBf16 : Dtype::kF32;
  with_mtp = with_mtp && config.num_mtp_layers > 0;
  if (with_mtp) layout.tail_dim = config.hidden_size;
  // One MTP layer drafts all tokens; of several, the first.
  const int64_t num_layers = config.num_layers + (with_mtp ? 1 : 0);
  for (int64_t i = 0; i < num_layers; ++i) {
    const bool full =
        config.indexer_types[static_cast<size_t>(i)] == checkpoint::IndexerType::kFull;
    layout.layers.push_back({config.kv_row_dim(), full ? config.index_head_dim : 0});
  }
  return layout;
}

}  // namespace quern::model
