#include "quern/backend/host/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

namespace quern::backend::host {
namespace {

// Anonymous pages: zeroed by the kernel, and only those touched cost memory.
class HostBuffer : public Buffer {
 public:
  explicit HostBuffer(int64_t bytes) {
    const size_t length = static_cast<size_t>(std::max<int64_t>(bytes, 1));
    void* p = ::mmap(nullptr, length, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return;
    data_ = p;
    bytes_ = bytes;
    length_ = length;
  }
  ~HostBuffer() override {
    if (data_ != nullptr) ::munmap(data_, length_);
  }

 private:
  size_t length_ = 0;
};

}  // namespace

Result<std::unique_ptr<Buffer>> AllocateHost(int64_t bytes) {
  if (bytes < 0) return InvalidArgument("cannot allocate {} bytes", bytes);
  auto buffer = std::make_unique<HostBuffer>(bytes);
  if (buffer->data() == nullptr) {
    return ResourceExhausted("cannot allocate {} bytes: {}", bytes, std::strerror(errno));
  }
  return std::unique_ptr<Buffer>(std::move(buffer));
}

Status CopyToDeviceHost(const void* host, const Tensor& dst) {
  if (!dst.is_contiguous()) return InvalidArgument("CopyToDevice: the tensor is not contiguous");
  if (dst.bytes() == 0) return OkStatus();  // `host` may be null then
  std::memcpy(dst.data, host, static_cast<size_t>(dst.bytes()));
  return OkStatus();
}

Status CopyToHostHost(const Tensor& src, void* host) {
  if (!src.is_contiguous()) return InvalidArgument("CopyToHost: the tensor is not contiguous");
  if (src.bytes() == 0) return OkStatus();
  std::memcpy(host, src.data, static_cast<size_t>(src.bytes()));
  return OkStatus();
}

}  // namespace quern::backend::host
