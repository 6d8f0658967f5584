// The memory of the KV cache: one pool per layer and kind of key.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "quern/backend/backend.h"
#include "quern/model/model.h"

namespace quern::cache {

// Owns the pools; `backend` must outlive it. The view stays valid as long as the cache.
class KvCache {
 public:
  // kResourceExhausted when the backend has no room for num_pages pages of 64 tokens.
  static Result<std::unique_ptr<KvCache>> Create(backend::Backend& backend,
                                                 const model::KvLayout& layout, int64_t num_pages);

  const model::KvView& view() const { return view_; }
  int64_t num_pages() const { return num_pages_; }

  // A page of all layers as bytes in host memory, [page_bytes()], and back.
  int64_t page_bytes() const;
  Status ReadPage(int32_t page, std::span<std::byte> bytes);
  Status WritePage(int32_t page, std::span<const std::byte> bytes);

 private:
  std::vector<backend::Tensor> Pools() const;

  backend::Backend* backend_ = nullptr;
  std::vector<std::unique_ptr<backend::Buffer>> buffers_;
  model::KvView view_;
  int64_t num_pages_ = 0;
};

}  // namespace quern::cache
