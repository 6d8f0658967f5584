// Pages of the KV cache on disk, so that cached prefixes survive a restart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "quern/base/status.h"

namespace quern::cache {

struct DiskStoreOptions {
  std::string directory;  // made when missing; stores of several models may share it
  int64_t max_bytes = 0;  // of this store's files; the least recently used go first
  // What the bytes of a page depend on: the model's weights and the formats of its keys. A store of
  // another identity is never read.
  std::string identity;
  int64_t page_bytes = 0;
};

// One page: its place in the prefix tree, and its bytes.
struct DiskPage {
  uint64_t parent_hash = 0;
  std::vector<int32_t> tokens;
  bool has_draft_keys = false;
  std::vector<std::byte> bytes;
};

// One file per page, named by the hash of all tokens up to its end. Each carries the store's
// identity, its tokens and a checksum; a file that is damaged or foreign is ignored with a warning.
// Not thread-safe: it belongs to the engine's thread.
class DiskStore {
 public:
  // Finds the pages that are there. kInvalidArgument when the directory cannot be made or written.
  static Result<std::unique_ptr<DiskStore>> Open(const DiskStoreOptions& options);

  // Root hash for the prefix tree: a random number kept beside the pages, so that nobody can choose
  // tokens whose hashes collide.
  uint64_t root_hash() const { return root_hash_; }

  bool Contains(uint64_t path_hash) const { return files_.count(path_hash) > 0; }
  // The page, if it is there, whole and of these tokens; nothing otherwise.
  bool Load(uint64_t path_hash, uint64_t parent_hash, std::span<const int32_t> tokens,
            DiskPage& page);
  // Keeps the page unless it is there. Errors (a full disk) are warned about once and end saving.
  void Save(uint64_t path_hash, const DiskPage& page);

  int64_t num_pages() const { return static_cast<int64_t>(files_.size()); }
  int64_t bytes() const { return bytes_; }

 private:
  struct File {
    int64_t bytes = 0;
    uint64_t last_used = 0;
  };

  explicit DiskStore(const DiskStoreOptions& options) : options_(options) {}
  Status Prepare();
  void Scan();
  std::string PathOf(uint64_t path_hash) const;
  void Touch(uint64_t path_hash);
  void Forget(uint64_t path_hash);

  DiskStoreOptions options_;
  std::string folder_;  // of this identity
  uint64_t root_hash_ = 0;
  std::unordered_map<uint64_t, File> files_;
  std::map<uint64_t, uint64_t> by_use_;  // last_used -> path_hash
  uint64_t clock_ = 0;
  int64_t bytes_ = 0;
  bool failed_ = false;
};

}  // namespace quern::cache
