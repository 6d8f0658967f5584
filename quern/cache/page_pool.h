// Pages of the KV cache, handed out and taken back.
#pragma once

#include <cstdint>
#include <vector>

namespace quern::cache {

// Owns page numbers, not memory. Not thread-safe: it belongs to the engine's thread.
class PagePool {
 public:
  explicit PagePool(int64_t num_pages);

  // Moves `count` pages to the end of `pages` and returns true, or changes nothing and returns
  // false.
  bool Take(int64_t count, std::vector<int32_t>& pages);
  // Gives all of `pages` back and clears it. A page given back twice is a CHECK failure.
  void Give(std::vector<int32_t>& pages);

  int64_t num_pages() const { return static_cast<int64_t>(used_.size()); }
  int64_t num_used() const { return num_pages() - static_cast<int64_t>(free_.size()); }

 private:
  std::vector<int32_t> free_;  // a stack: the page used last is the one most likely in cache
  std::vector<bool> used_;
};

}  // namespace quern::cache
