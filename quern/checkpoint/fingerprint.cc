#include "quern/checkpoint/fingerprint.h"

#include <algorithm>

#include "quern/base/hash.h"

namespace quern::checkpoint {

std::string Fingerprint(const Checkpoint& checkpoint) {
  constexpr size_t kSampledTensors = 2048, kSampledBytes = 64;
  Fnv1a hash;
  hash.Add(checkpoint.config_json().dump());
  const std::vector<TensorInfo>& tensors = checkpoint.tensors();
  const size_t stride = std::max<size_t>(tensors.size() / kSampledTensors, 1);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo& t = tensors[i];
    hash.Add(fmt::format("{} {} [{}]", t.name, DtypeName(t.dtype), fmt::join(t.shape, ", ")));
    if (i % stride != 0) continue;
    const std::span<const std::byte> bytes = checkpoint.Bytes(t);
    const size_t n = std::min(bytes.size(), kSampledBytes);
    hash.Add(bytes.first(n));
    hash.Add(bytes.last(n));
  }
  return fmt::format("{:016x}", hash.value());
}

}  // namespace quern::checkpoint
