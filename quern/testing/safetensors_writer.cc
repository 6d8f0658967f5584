#include "quern/testing/safetensors_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "quern/base/check.h"

namespace quern::testing {
namespace {

Status WriteAt(int fd, const std::string& path, const char* data, uint64_t size, uint64_t offset) {
  while (size > 0) {
    const ssize_t n = ::pwrite(fd, data, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return FailedPrecondition("{}: write: {}", path, std::strerror(errno));
    data += n;
    size -= static_cast<uint64_t>(n);
    offset += static_cast<uint64_t>(n);
  }
  return OkStatus();
}

}  // namespace

std::string SafetensorsHeader(const std::vector<Piece>& pieces) {
  std::string text = "{\"__metadata__\":{\"format\":\"pt\"}";
  uint64_t offset = 0;
  for (const Piece& piece : pieces) {
    const uint64_t end = offset + piece.bytes();
    text +=
        fmt::format(",\"{}\":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                    piece.name, DtypeName(piece.dtype), fmt::join(piece.shape, ","), offset, end);
    offset = end;
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

Result<SafetensorsWriter> SafetensorsWriter::Create(const std::string& path,
                                                    std::vector<Piece> pieces) {
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return std::pair(-DtypeBytes(a.dtype), std::string_view(a.name)) <
           std::pair(-DtypeBytes(b.dtype), std::string_view(b.name));
  });
  std::string head(8, '\0');
  const std::string header = SafetensorsHeader(pieces);
  const uint64_t length = header.size();
  std::memcpy(head.data(), &length, 8);
  head += header;

  SafetensorsWriter writer;
  writer.path_ = path;
  uint64_t offset = head.size();
  for (const Piece& piece : pieces) {
    writer.places_.push_back({piece.name, offset, piece.bytes()});
    offset += piece.bytes();
  }
  std::sort(writer.places_.begin(), writer.places_.end(),
            [](const Place& a, const Place& b) { return a.name < b.name; });

  writer.fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (writer.fd_ < 0)
    return FailedPrecondition("{}: cannot create: {}", path, std::strerror(errno));
  if (::ftruncate(writer.fd_, static_cast<off_t>(offset)) != 0) {
    return FailedPrecondition("{}: cannot size to {} bytes: {}", path, offset,
                              std::strerror(errno));
  }
  QUERN_TRY(WriteAt(writer.fd_, path, head.data(), head.size(), 0));
  return writer;
}

SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      places_(std::move(other.places_)) {}

SafetensorsWriter::~SafetensorsWriter() {
  if (fd_ >= 0) ::close(fd_);
}

Status SafetensorsWriter::Write(const std::string& name, const std::string& bytes) {
  const auto it = std::lower_bound(places_.begin(), places_.end(), name,
                                   [](const Place& p, const std::string& n) { return p.name < n; });
  QUERN_CHECK(it != places_.end() && it->name == name, "{} is not in {}", name, path_);
  QUERN_CHECK(it->bytes == bytes.size(), "{}: {} bytes, want {}", name, bytes.size(), it->bytes);
  return WriteAt(fd_, path_, bytes.data(), bytes.size(), it->offset);
}

}  // namespace quern::testing
