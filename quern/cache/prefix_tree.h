// Which pages hold which tokens, so that sequences with a common beginning share them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "quern/cache/page_pool.h"

namespace quern::cache {

// A radix tree over token ids whose edges are whole pages of 64 tokens: the path to a node spells
// the tokens that its page, and those above it, hold the keys of. The tree owns the pages of its
// nodes; they are never written again. Not thread-safe: it belongs to the engine's thread.
class PrefixTree {
 public:
  class Node {
   public:
    int32_t page() const { return page_; }                          // -1 for the root
    const std::vector<int32_t>& tokens() const { return tokens_; }  // of this page
    const Node* parent() const { return parent_; }
    // Identifies all tokens from the root to here.
    uint64_t path_hash() const { return path_hash_; }
    // The MTP layer's keys are there too, in this page and all above it.
    bool has_draft_keys() const { return has_draft_keys_; }

   private:
    friend class PrefixTree;
    Node* parent_ = nullptr;
    std::vector<int32_t> tokens_;
    uint64_t path_hash_ = 0;
    int32_t page_ = -1;
    bool has_draft_keys_ = true;
    int64_t locks_ = 0;  // of this node and all below it
    uint64_t last_used_ = 0;
    std::unordered_multimap<uint64_t, std::unique_ptr<Node>> children_;  // by path_hash
  };

  // `pool` must outlive the tree and hand out the pages that Insert gets.
  // `root_hash` seeds the hashes of paths; those of trees with the same seed agree.
  explicit PrefixTree(PagePool& pool, uint64_t root_hash = 0) : pool_(pool) {
    root_.path_hash_ = root_hash;
  }

  Node* root() { return &root_; }

  // The node below `parent` that holds `tokens` (64 of them), or nullptr.
  Node* Find(Node* parent, std::span<const int32_t> tokens);

  // A locked node, and all above it, stay. Locks nest; each Lock wants its Unlock.
  void Lock(Node* node);
  void Unlock(Node* node);

  // Gives `page`, which holds `tokens`, to the tree and moves the caller's lock from `parent` to
  // the node that now stands for it. When the tree has these tokens already, `page` goes back to
  // the pool and the node with the older page is returned: the same tokens have the same keys.
  Node* Insert(Node* parent, std::span<const int32_t> tokens, int32_t page, bool has_draft_keys);

  // Makes `count` pages of the pool free by dropping what was used least recently and is not
  // locked; false when that is not enough (what could be dropped is dropped then).
  bool MakeRoom(int64_t count);
  // Called with each node that MakeRoom drops, while its page still holds the keys.
  void OnEvict(std::function<void(const Node&)> callback) { on_evict_ = std::move(callback); }

  // Drops everything that is not locked.
  void Clear() { MakeRoom(pool_.num_pages()); }
  // Calls `visit` for each node, parents first.
  void ForEach(const std::function<void(const Node&)>& visit) const;

  int64_t num_pages() const { return num_pages_; }
  // Pages that MakeRoom could drop now.
  int64_t num_evictable() const { return num_evictable_; }
  int64_t num_evicted() const { return num_evicted_; }  // since the start

  // Of the path that ends with `tokens` below a node with `parent_hash`.
  static uint64_t PathHash(uint64_t parent_hash, std::span<const int32_t> tokens);

 private:
  bool IsLeaf(const Node& node) const { return node.locks_ == 0 && node.children_.empty(); }
  void Touch(Node* node);
  void Drop(Node* node);

  PagePool& pool_;
  Node root_;
  std::set<std::pair<uint64_t, Node*>> leaves_;  // unlocked nodes without children, oldest first
  std::function<void(const Node&)> on_evict_;
  uint64_t clock_ = 0;
  int64_t num_pages_ = 0, num_evictable_ = 0, num_evicted_ = 0;
};

}  // namespace quern::cache
