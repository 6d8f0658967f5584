// Any bytes as a safetensors file and as an index: no crash, and what comes out lies inside the
// file.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "quern/base/check.h"
#include "quern/checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quern::checkpoint;  // NOLINT: a function of its own
  static SafetensorsParser& parser = *new SafetensorsParser();
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  {
    Problems problems;
    for (const TensorInfo& tensor : parser.ParseHeader(bytes, size, "file", 3, problems)) {
      QUERN_CHECK(tensor.offset <= size && tensor.bytes <= size - tensor.offset);
      uint64_t wanted = static_cast<uint64_t>(quern::DtypeBytes(tensor.dtype));
      for (int64_t dim : tensor.shape) {
        QUERN_CHECK(dim >= 0);
        wanted *= static_cast<uint64_t>(dim);
      }
      QUERN_CHECK(wanted == tensor.bytes, "{} bytes, want {}", tensor.bytes, wanted);
      QUERN_CHECK(tensor.shard == 3);
    }
    QUERN_CHECK(problems.errors().size() <= 64, "{} errors", problems.errors().size());
  }
  Problems problems;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const SafetensorsParser::Index index = parser.ParseIndex(text, "index", problems);
  for (const SafetensorsParser::IndexEntry& entry : index.entries) {
    QUERN_CHECK(entry.file >= 0 && static_cast<size_t>(entry.file) < index.files.size());
  }
  for (const std::string& file : index.files) QUERN_CHECK(file.front() != '/');
  return 0;
}
