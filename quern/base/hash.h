// FNV-1a, 64 bits (Fowler, Noll, Vo; draft-eastlake-fnv): names things, protects nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace quern {

class Fnv1a {
 public:
  void Add(std::span<const std::byte> bytes) {
    for (std::byte b : bytes) hash_ = (hash_ ^ static_cast<uint8_t>(b)) * 0x100000001B3u;
  }
  void Add(std::string_view text) { Add(std::as_bytes(std::span(text.data(), text.size()))); }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xCBF29CE484222325u;
};

}  // namespace quern
