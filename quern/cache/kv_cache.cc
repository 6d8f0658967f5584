#include "quern/cache/kv_cache.h"

namespace quern::cache {

Result<std::unique_ptr<KvCache>> KvCache::Create(backend::Backend& backend,
                                                 const model::KvLayout& layout, int64_t num_pages) {
  auto cache = std::make_unique<KvCache>();
  cache->num_pages_ = num_pages;
  const auto allocate = [&](backend::Tensor t) -> Result<backend::Tensor> {
    QUERN_ASSIGN(std::unique_ptr<backend::Buffer> buffer, backend.Allocate(t.bytes()));
    t.data = buffer->data();
    cache->buffers_.push_back(std::move(buffer));
    return t;
  };
  const auto pool = [&](int64_t dim) {
    return allocate(backend::Tensor(layout.dtype, {num_pages, backend::kPageTokens, dim}, nullptr));
  };
  for (const model::KvLayout::Layer& layer : layout.layers) {
    model::KvView::Layer view;
    QUERN_ASSIGN(view.latent, pool(layer.latent_dim));
    if (layer.index_key_dim > 0) {
      QUERN_ASSIGN(view.index_keys, pool(layer.index_key_dim));
    }
    cache->view_.layers.push_back(view);
  }
  if (layout.tail_dim > 0) {
    QUERN_ASSIGN(cache->view_.tails,
                 allocate(backend::Tensor(layout.dtype, {num_pages, layout.tail_dim}, nullptr)));
  }
  return cache;
}

}  // namespace quern::cache
