#include "quern/engine/page_archive.h"

#include "quern/base/log.h"

namespace quern::engine {

void PageArchive::Keep(const cache::PrefixTree::Node& node) {
  if (store_->Contains(node.path_hash())) return;
  buffer_.parent_hash = node.parent()->path_hash();
  buffer_.tokens = node.tokens();
  buffer_.has_draft_keys = node.has_draft_keys();
  buffer_.bytes.resize(static_cast<size_t>(kv_.page_bytes()));
  const Status read = kv_.ReadPage(node.page(), buffer_.bytes);
  if (read.ok()) {
    store_->Save(node.path_hash(), buffer_);
  } else {
    log::warn("a page of the KV cache could not be read: {}", read.message());
  }
}

void PageArchive::KeepAll() {
  tree_.ForEach([this](const cache::PrefixTree::Node& node) { Keep(node); });
}

cache::PrefixTree::Node* PageArchive::Restore(cache::PrefixTree::Node* parent,
                                              std::span<const int32_t> tokens) {
  const uint64_t hash = cache::PrefixTree::PathHash(parent->path_hash(), tokens);
  if (!store_->Contains(hash)) return nullptr;
  std::vector<int32_t> page;
  if (!tree_.MakeRoom(1) || !pool_.Take(1, page)) return nullptr;
  if (!store_->Load(hash, parent->path_hash(), tokens, buffer_) ||
      !kv_.WritePage(page[0], buffer_.bytes).ok()) {
    pool_.Give(page);
    return nullptr;
  }
  ++num_restored_;
  return tree_.Insert(parent, tokens, page[0], buffer_.has_draft_keys);
}

}  // namespace quern::engine
