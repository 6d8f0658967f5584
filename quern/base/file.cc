#include "quern/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace quern {
namespace {

// An open descriptor and its size; closes itself.
struct OpenFile {
  int fd = -1;
  uint64_t size = 0;
  OpenFile() = default;
  OpenFile(OpenFile&& o) noexcept : fd(std::exchange(o.fd, -1)), size(o.size) {}
  ~OpenFile() {
    if (fd >= 0) ::close(fd);
  }
};

Result<OpenFile> OpenForRead(const std::string& path) {
  OpenFile file;
  file.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file.fd < 0) {
    const int error = errno;
    if (error == ENOENT) return NotFound("{}: no such file", path);
    return FailedPrecondition("{}: cannot open: {}", path, std::strerror(error));
  }
  struct stat info;
  if (::fstat(file.fd, &info) != 0) return FailedPrecondition("{}: {}", path, std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return InvalidArgument("{}: not a regular file", path);
  file.size = static_cast<uint64_t>(info.st_size);
  return file;
}

}  // namespace

Result<std::string> ReadFile(const std::string& path, uint64_t max_bytes) {
  QUERN_ASSIGN(OpenFile file, OpenForRead(path));
  if (file.size > max_bytes) {
    return InvalidArgument("{}: {} bytes, over the limit of {}", path, file.size, max_bytes);
  }
  std::string text(file.size, '\0');
  for (uint64_t done = 0; done < file.size;) {
    const ssize_t n = ::read(file.fd, text.data() + done, file.size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return DataLoss("{}: read {} of {} bytes", path, done, file.size);
    done += static_cast<uint64_t>(n);
  }
  return text;
}

Result<MappedFile> MappedFile::Open(const std::string& path) {
  QUERN_ASSIGN(OpenFile file, OpenForRead(path));
  MappedFile mapped;
  if (file.size == 0) return mapped;  // mmap refuses length 0
  void* data = ::mmap(nullptr, file.size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) return FailedPrecondition("{}: mmap: {}", path, std::strerror(errno));
  mapped.data_ = static_cast<const std::byte*>(data);
  mapped.size_ = file.size;
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::Release(uint64_t offset, uint64_t length) const {
  if (data_ == nullptr || offset >= size_) return;
  // Only whole pages inside the range: the pages at its ends may hold a neighbour's bytes.
  const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t begin = (offset + page - 1) / page * page;
  const uint64_t end = std::min(offset + length, size_) / page * page;
  if (begin < end) ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace quern
