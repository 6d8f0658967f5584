// Moves pages between the prefix tree and the disk.
#pragma once

#include <memory>

#include "quern/cache/disk_store.h"
#include "quern/cache/kv_cache.h"
#include "quern/cache/page_pool.h"
#include "quern/cache/prefix_tree.h"

namespace quern::engine {

// Belongs to the engine's thread; what it refers to must outlive it.
class PageArchive {
 public:
  PageArchive(std::unique_ptr<cache::DiskStore> store, cache::KvCache& kv, cache::PagePool& pool,
              cache::PrefixTree& tree)
      : store_(std::move(store)), kv_(kv), pool_(pool), tree_(tree) {}

  // A page leaves the tree, or the engine ends: it goes to the disk.
  void Keep(const cache::PrefixTree::Node& node);
  void KeepAll();
  // The page of `tokens` below the locked `parent`, put into the tree, if it is on disk and there
  // is room; else nullptr. Moves the caller's lock to it.
  cache::PrefixTree::Node* Restore(cache::PrefixTree::Node* parent,
                                   std::span<const int32_t> tokens);

  int64_t num_restored() const { return num_restored_; }

 private:
  std::unique_ptr<cache::DiskStore> store_;
  cache::KvCache& kv_;
  cache::PagePool& pool_;
  cache::PrefixTree& tree_;
  cache::DiskPage buffer_;
  int64_t num_restored_ = 0;
};

}  // namespace quern::engine
