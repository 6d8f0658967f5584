// Two well-known hashes. They name and mix things; they protect nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace quern {

// SplitMix64 (Steele, Lea, Flood 2014): every bit of `z` reaches every bit of the result.
inline uint64_t SplitMix64(uint64_t z) {
  z += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// FNV-1a, 64 bits (Fowler, Noll, Vo; draft-eastlake-fnv).
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
