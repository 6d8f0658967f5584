// Writes safetensors files: a header and either the tensors' bytes or a hole of their size.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "quern/base/status.h"
#include "quern/testing/layouts.h"

namespace quern::testing {

// One file being written. Tensors lie in it as the format's own library would put them: larger
// element types first, so that all are aligned, then by name; without holes.
class SafetensorsWriter {
 public:
  // Creates `path` (replacing it), writes the header and sizes the file; unwritten data reads as
  // zero and takes no disk blocks.
  static Result<SafetensorsWriter> Create(const std::string& path, std::vector<Piece> pieces);

  SafetensorsWriter(SafetensorsWriter&& other) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) = delete;
  ~SafetensorsWriter();

  // Writes the bytes of one of the tensors.
  Status Write(const std::string& name, const std::string& bytes);

 private:
  struct Place {
    std::string name;
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  SafetensorsWriter() = default;

  std::string path_;
  int fd_ = -1;
  std::vector<Place> places_;  // sorted by name
};

// The header's JSON for pieces in file order, padded with spaces to a multiple of 8 bytes.
std::string SafetensorsHeader(const std::vector<Piece>& pieces);

}  // namespace quern::testing
