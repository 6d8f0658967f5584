// Owner of a buffer that the Rust library filled.
#pragma once

#include <string>
#include <string_view>

#include "quern/base/status.h"
#include "rust/quern_rust.h"

namespace quern::text {

// Frees its buffer when it goes. Pass out() where quern_rust.h wants a QuernRustBuffer*, once.
class RustBuffer {
 public:
  RustBuffer() = default;
  RustBuffer(const RustBuffer&) = delete;
  RustBuffer& operator=(const RustBuffer&) = delete;
  ~RustBuffer() { quern_rust_buffer_free(buffer_); }

  QuernRustBuffer* out() { return &buffer_; }
  std::string_view view() const {
    return {reinterpret_cast<const char*>(buffer_.data), buffer_.len};
  }

 private:
  QuernRustBuffer buffer_{};
};

// The Status of a call: ok, or `error`'s message under the code that fits.
inline Status RustStatus(QuernRustCode code, const RustBuffer& error) {
  std::string message(error.view());
  switch (code) {
    case QUERN_RUST_OK:
      return OkStatus();
    case QUERN_RUST_INVALID:
    case QUERN_RUST_RAISED:
      return Status(StatusCode::kInvalidArgument, std::move(message));
    case QUERN_RUST_UNSUPPORTED:
      return Status(StatusCode::kUnimplemented, std::move(message));
    case QUERN_RUST_PANIC:
      break;
  }
  return Status(StatusCode::kInternal, std::move(message));
}

}  // namespace quern::text
