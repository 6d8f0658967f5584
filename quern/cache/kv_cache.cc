#include "quern/cache/kv_cache.h"

namespace quern::cache {

Result<std::unique_ptr<KvCache>> KvCache::Create(backend::Backend& backend,
                                                 const model::KvLayout& layout, int64_t num_pages) {
  auto cache = std::make_unique<KvCache>();
  cache->num_pages_ = num_pages;
  cache->backend_ = &backend;
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
    QUERN_ASSIGN(
        cache->view_.tails,
        allocate(backend::Tensor(layout.tail_dtype, {num_pages, layout.tail_dim}, nullptr)));
  }
  return cache;
}

std::vector<backend::Tensor> KvCache::Pools() const {
  std::vector<backend::Tensor> pools;
  for (const model::KvView::Layer& layer : view_.layers) {
    pools.push_back(layer.latent);
    if (layer.index_keys.data != nullptr) pools.push_back(layer.index_keys);
  }
  if (view_.tails.data != nullptr) pools.push_back(view_.tails);
  return pools;
}

int64_t KvCache::page_bytes() const {
  int64_t bytes = 0;
  for (const backend::Tensor& pool : Pools()) bytes += pool.Rows(0, 1).bytes();
  return bytes;
}

Status KvCache::ReadPage(int32_t page, std::span<std::byte> bytes) {
  QUERN_CHECK(static_cast<int64_t>(bytes.size()) == page_bytes());
  std::byte* to = bytes.data();
  for (const backend::Tensor& pool : Pools()) {
    const backend::Tensor part = pool.Rows(page, 1);
    QUERN_TRY(backend_->CopyToHost(part, to));
    to += part.bytes();
  }
  return OkStatus();
}

Status KvCache::WritePage(int32_t page, std::span<const std::byte> bytes) {
  QUERN_CHECK(static_cast<int64_t>(bytes.size()) == page_bytes());
  const std::byte* from = bytes.data();
  for (const backend::Tensor& pool : Pools()) {
    const backend::Tensor part = pool.Rows(page, 1);
    QUERN_TRY(backend_->CopyToDevice(from, part));
    from += part.bytes();
  }
  return OkStatus();
}

}  // namespace quern::cache
