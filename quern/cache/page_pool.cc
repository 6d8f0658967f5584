#include "quern/cache/page_pool.h"

#include "quern/base/check.h"

namespace quern::cache {

PagePool::PagePool(int64_t num_pages) : used_(static_cast<size_t>(num_pages), false) {
  for (int64_t i = num_pages; i-- > 0;) free_.push_back(static_cast<int32_t>(i));
}

bool PagePool::Take(int64_t count, std::vector<int32_t>& pages) {
  if (count > static_cast<int64_t>(free_.size())) return false;
  for (int64_t i = 0; i < count; ++i) {
    pages.push_back(free_.back());
    used_[static_cast<size_t>(free_.back())] = true;
    free_.pop_back();
  }
  return true;
}

void PagePool::Give(std::vector<int32_t>& pages) {
  for (int32_t page : pages) {
    QUERN_CHECK(used_[static_cast<size_t>(page)], "page {} is already free", page);
    used_[static_cast<size_t>(page)] = false;
    free_.push_back(page);
  }
  pages.clear();
}

}  // namespace quern::cache
