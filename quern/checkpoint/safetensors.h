// The safetensors header and the index that spreads a checkpoint over shards: JSON only, no tensor
// bytes.
//
// A file is: u64 little endian header length n; n bytes of JSON; the data. The JSON maps each
// tensor's name to
// {"dtype", "shape", "data_offsets": [begin, end)} with offsets counted from the first byte after
// the header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quern/checkpoint/checkpoint.h"
#include "quern/checkpoint/problems.h"

namespace quern::checkpoint {

// The longest JSON header we read. The format's own library has the same limit.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

// `text` fit for a message or a terminal: control characters become '?', and it is cut at 200
// bytes.
std::string Printable(std::string_view text);

// Parses headers one after another and keeps its buffers between them. Not thread-safe.
class SafetensorsParser {
 public:
  SafetensorsParser();
  ~SafetensorsParser();

  // Parses the header of a file of `file_size` bytes named `file` in messages. `bytes` holds the
  // file from its start, at least up to the end of the header (or all of a shorter file); nothing
  // past the header is touched. Returns the sound tensors in the order of their data; `shard` is
  // copied into each. What is wrong (header length, JSON, unknown dtype, bad shape, offsets that
  // disagree with the shape, overlap, a second tensor of the same name, bytes missing at the end)
  // is an error in `problems`, at most 20 of them per file with a count of the rest; bytes that
  // belong to no tensor are a warning. Hostile input costs at most about 15 times the header's size
  // in memory.
  std::vector<TensorInfo> ParseHeader(std::span<const std::byte> bytes, uint64_t file_size,
                                      const std::string& file, int32_t shard, Problems& problems);

  struct IndexEntry {
    std::string tensor;
    int32_t file = 0;  // into SafetensorsIndex::files
  };
  struct Index {
    std::vector<std::string> files;   // distinct, sorted
    std::vector<IndexEntry> entries;  // sorted by tensor
  };

  // Parses model.safetensors.index.json. File names that leave the checkpoint's folder are errors.
  Index ParseIndex(std::string_view text, const std::string& file, Problems& problems);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern::checkpoint
