// The memory of the KV cache: one pool per layer and kind of key.
#pragma once

#include <memory>
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

 private:
  std::vector<std::unique_ptr<backend::Buffer>> buffers_;
  model::KvView view_;
  int64_t num_pages_ = 0;
};

}  // namespace quern::cache
