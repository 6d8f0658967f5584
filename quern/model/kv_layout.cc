#include "quern/backend/ops/attention.h"
#include "quern/model/model.h"

namespace quern::model {

int64_t KvLayout::bytes_per_page() const {
  return backend::kPageTokens * bytes_per_token() + tail_dim * DtypeBytes(tail_dtype);
}

int64_t KvLayout::bytes_per_token() const {
  int64_t elements = 0;
  for (const Layer& layer : layers) elements += layer.latent_dim + layer.index_key_dim;
  return elements * DtypeBytes(dtype);
}

KvLayout MakeKvLayout(const checkpoint::ModelConfig& config, const KvOptions& options) {
  KvLayout layout;
  layout.tail_dtype = config.dtype == Dtype::kBf16 ? Dtype::kBf16 : Dtype::kF32;
  switch (options.dtype) {
    case KvDtype::kAuto:
      layout.dtype = layout.tail_dtype;
      break;
    case KvDtype::kBf16:
      layout.dtype = Dtype::kBf16;
      break;
    case KvDtype::kFp8:
      layout.dtype = Dtype::kU8;
      break;
    case KvDtype::kFp8Raw:
      layout.dtype = Dtype::kF8E4M3;
      break;
  }
  const bool with_mtp = options.with_mtp && config.num_mtp_layers > 0;
  if (with_mtp) layout.tail_dim = config.hidden_size;
  const int64_t latent =
      backend::KeyRowElements(layout.dtype, config.kv_row_dim(), config.kv_lora_rank);
  const int64_t index_key =
      backend::KeyRowElements(layout.dtype, config.index_head_dim, config.index_head_dim);
  // One MTP layer drafts all tokens; of several, the first.
  const int64_t num_layers = config.num_layers + (with_mtp ? 1 : 0);
  for (int64_t i = 0; i < num_layers; ++i) {
    const bool full =
        config.indexer_types[static_cast<size_t>(i)] == checkpoint::IndexerType::kFull;
    layout.layers.push_back({latent, full ? index_key : 0});
  }
  return layout;
}

}  // namespace quern::model
