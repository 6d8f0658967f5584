// Whole-file reads and read-only memory maps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "quern/base/status.h"

namespace quern {

// The whole file as bytes. kNotFound when it does not exist; kInvalidArgument over `max_bytes`.
Result<std::string> ReadFile(const std::string& path, uint64_t max_bytes = uint64_t{1} << 30);

// A read-only mapping of a file. Pages are read when touched; Release() lets the kernel drop those
// already used, so that streaming through a large file does not hold it in memory. Move-only;
// thread-safe to read.
class MappedFile {
 public:
  static Result<MappedFile> Open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  uint64_t size() const { return size_; }

  // Tells the kernel the range [offset, offset + length) is no longer needed. Reading it again is
  // correct.
  void Release(uint64_t offset, uint64_t length) const;

 private:
  const std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace quern
