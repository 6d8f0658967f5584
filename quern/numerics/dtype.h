// Element types as files and tensors name them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace quern {

enum class Dtype : uint8_t {
  kF64,
  kF32,
  kF16,
  kBf16,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
};

// Bytes of one element.
int64_t DtypeBytes(Dtype dtype);
// safetensors spelling: "BF16", "F8_E4M3", "U8" ...
std::string_view DtypeName(Dtype dtype);
// Inverse of DtypeName; nothing for an unknown name.
std::optional<Dtype> DtypeFromName(std::string_view name);

}  // namespace quern
