// A checkpoint directory: its tensors (headers parsed, data mapped, nothing copied) and its config
// files.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quern/base/file.h"
#include "quern/base/json.h"
#include "quern/checkpoint/problems.h"
#include "quern/numerics/dtype.h"

namespace quern::checkpoint {

// One stored tensor: where its bytes are.
struct TensorInfo {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> shape;
  int32_t shard = 0;    // index into Checkpoint::shards()
  uint64_t offset = 0;  // of the first byte, from the start of the shard file
  uint64_t bytes = 0;
};

struct Shard {
  std::string path;
  MappedFile file;
};

// Owns the mappings; everything it hands out is a view that it must outlive. Thread-safe once
// opened.
class Checkpoint {
 public:
  // `path` is a directory with config.json and either model.safetensors or
  // model.safetensors.index.json and its shards, or one .safetensors file beside a config.json.
  // Reads headers only. What is wrong with single files (missing, zero bytes, truncated, a Git-LFS
  // pointer, a bad header, overlapping or out-of-range tensors, a tensor the index places
  // elsewhere, GGUF or .bin files instead of safetensors) is added to `problems`, and opening goes
  // on, so that all of it is reported at once. Fails only when there is nothing to go on with; the
  // status then lists what `problems` holds too, so report one of the two.
  static Result<std::unique_ptr<Checkpoint>> Open(const std::string& path, Problems& problems);

  const std::string& directory() const { return directory_; }
  const Json& config_json() const { return config_json_; }
  const std::vector<Shard>& shards() const { return shards_; }
  // Sorted by name.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  // nullptr when there is none. O(log n).
  const TensorInfo* Find(std::string_view name) const;
  std::span<const std::byte> Bytes(const TensorInfo& tensor) const;
  // Lets the kernel drop the tensor's pages: its bytes have been repacked and are not needed now.
  void Release(const TensorInfo& tensor) const;
  uint64_t total_bytes() const;

 private:
  std::string directory_;
  Json config_json_;
  std::vector<Shard> shards_;
  std::vector<TensorInfo> tensors_;
};

}  // namespace quern::checkpoint
