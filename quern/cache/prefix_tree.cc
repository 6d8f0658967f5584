#include "quern/cache/prefix_tree.h"

#include <algorithm>

#include "quern/base/check.h"
#include "quern/base/hash.h"

namespace quern::cache {
uint64_t PrefixTree::PathHash(uint64_t parent_hash, std::span<const int32_t> tokens) {
  uint64_t hash = SplitMix64(parent_hash ^ tokens.size());
  for (int32_t token : tokens) hash = SplitMix64(hash ^ static_cast<uint32_t>(token));
  return hash;
}

PrefixTree::Node* PrefixTree::Find(Node* parent, std::span<const int32_t> tokens) {
  auto [it, end] = parent->children_.equal_range(PathHash(parent->path_hash_, tokens));
  for (; it != end; ++it) {
    // Equal hashes of different tokens would serve one user's keys to another.
    const std::vector<int32_t>& held = it->second->tokens_;
    if (std::equal(held.begin(), held.end(), tokens.begin(), tokens.end())) return it->second.get();
  }
  return nullptr;
}

void PrefixTree::Touch(Node* node) {
  if (node == &root_) return;
  const bool listed = IsLeaf(*node);
  if (listed) leaves_.erase({node->last_used_, node});
  node->last_used_ = ++clock_;
  if (listed) leaves_.insert({node->last_used_, node});
}

void PrefixTree::Lock(Node* node) {
  for (Node* n = node; n != &root_; n = n->parent_) {
    Touch(n);
    if (n->locks_++ > 0) continue;
    --num_evictable_;
    leaves_.erase({n->last_used_, n});
  }
}

void PrefixTree::Unlock(Node* node) {
  for (Node* n = node; n != &root_; n = n->parent_) {
    QUERN_CHECK(n->locks_ > 0, "page {} is not locked", n->page_);
    Touch(n);
    if (--n->locks_ > 0) continue;
    ++num_evictable_;
    if (n->children_.empty()) leaves_.insert({n->last_used_, n});
  }
}

PrefixTree::Node* PrefixTree::Insert(Node* parent, std::span<const int32_t> tokens, int32_t page,
                                     bool has_draft_keys) {
  Node* node = Find(parent, tokens);
  if (node == nullptr) {
    auto fresh = std::make_unique<Node>();
    node = fresh.get();
    node->parent_ = parent;
    node->tokens_.assign(tokens.begin(), tokens.end());
    node->path_hash_ = PathHash(parent->path_hash_, tokens);
    node->page_ = page;
    node->has_draft_keys_ = has_draft_keys && parent->has_draft_keys_;
    if (IsLeaf(*parent) && parent != &root_) leaves_.erase({parent->last_used_, parent});
    parent->children_.emplace(node->path_hash_, std::move(fresh));
    ++num_pages_;
    ++num_evictable_;
    leaves_.insert({node->last_used_, node});
  } else {
    std::vector<int32_t> spare = {page};
    pool_.Give(spare);
  }
  Lock(node);
  Unlock(parent);
  return node;
}

bool PrefixTree::MakeRoom(int64_t count) {
  while (pool_.num_pages() - pool_.num_used() < count) {
    if (leaves_.empty()) return false;
    Drop(leaves_.begin()->second);
  }
  return true;
}

void PrefixTree::Drop(Node* node) {
  if (on_evict_) on_evict_(*node);
  leaves_.erase({node->last_used_, node});
  std::vector<int32_t> page = {node->page_};
  pool_.Give(page);
  --num_pages_;
  --num_evictable_;
  ++num_evicted_;
  Node* parent = node->parent_;
  auto [it, end] = parent->children_.equal_range(node->path_hash_);
  parent->children_.erase(
      std::find_if(it, end, [&](const auto& c) { return c.second.get() == node; }));
  if (parent != &root_ && IsLeaf(*parent)) leaves_.insert({parent->last_used_, parent});
}

void PrefixTree::ForEach(const std::function<void(const Node&)>& visit) const {
  std::vector<const Node*> open = {&root_};
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (node != &root_) visit(*node);
    for (const auto& [hash, child] : node->children_) open.push_back(child.get());
  }
}

}  // namespace quern::cache
