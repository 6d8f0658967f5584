// Errors a user, a file or a peer can cause travel as Status / Result<T>; our own broken promises
// are QUERN_CHECK (check.h). See docs/decisions/0001-status-over-exceptions.md.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "quern/base/check.h"

namespace quern {

enum class StatusCode {
  kOk,
  kInvalidArgument,     // the input is wrong whatever the state: a bad flag, field, file content
  kNotFound,            // a named thing does not exist
  kFailedPrecondition,  // the input is fine but the state does not allow it
  kResourceExhausted,   // out of memory, pages, queue places
  kUnimplemented,       // understood, but quern does not do it
  kCancelled,           // the caller asked to stop
  kUnavailable,         // shutting down, try elsewhere or later
  kDataLoss,            // truncated or corrupt bytes
  kInternal,            // a fault of ours that was caught
};

// "INVALID_ARGUMENT" and so on.
const char* StatusCodeName(StatusCode code);

// The outcome of an operation without a value. Cheap when ok. [[nodiscard]]: an ignored error is a
// bug.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {
    QUERN_CHECK(code != StatusCode::kOk);
  }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  // For people: names the thing, what came, what was wanted, the next move.
  const std::string& message() const { return message_; }
  std::string ToString() const;
  // The same status with "context: " in front of its message.
  Status WithContext(std::string_view context) const;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status OkStatus() { return Status(); }

template <typename... Args>
Status InvalidArgument(fmt::format_string<Args...> f, Args&&... args) {
  return Status(StatusCode::kInvalidArgument, fmt::format(f, std::forward<Args>(args)...));
}
template <typename... Args>
Status NotFound(fmt::format_string<Args...> f, Args&&... args) {
  return Status(StatusCode::kNotFound, fmt::format(f, std::forward<Args>(args)...));
}
template <typename... Args>
Status FailedPrecondition(fmt::format_string<Args...> f, Args&&... args) {
  return Status(StatusCode::kFailedPrecondition, fmt::format(f, std::forward<Args>(args)...));
}
template <typename... Args>
Status ResourceExhausted(fmt::format_string<Args...> f, Args&&... args) {
  return Status(StatusCode::kResourceExhausted, fmt::format(f, std::forward<Args>(args)...));
}
template <typename... Args>
Status Unimplemented(fmt::format_string<Args...> f, Args&&... args) {
  return Status(StatusCode::kUnimplemented, fmt::format(f, std::forward<Args>(args)...));
}
template <typename... Args>
Status Unavailable(fmt::format_string<Args...> f, Args&&... args) {
  return Status(StatusCode::kUnavailable, fmt::format(f, std::forward<Args>(args)...));
}
template <typename... Args>
Status DataLoss(fmt::format_string<Args...> f, Args&&... args) {
  return Status(StatusCode::kDataLoss, fmt::format(f, std::forward<Args>(args)...));
}
template <typename... Args>
Status Internal(fmt::format_string<Args...> f, Args&&... args) {
  return Status(StatusCode::kInternal, fmt::format(f, std::forward<Args>(args)...));
}

// A value or the reason there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) { QUERN_CHECK(!status_.ok()); }  // NOLINT

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  T& value() & {
    QUERN_CHECK(ok(), "{}", status_.ToString());
    return *value_;
  }
  const T& value() const& {
    QUERN_CHECK(ok(), "{}", status_.ToString());
    return *value_;
  }
  // By value, so that `for (x : F().value())` keeps what it walks over alive.
  T value() && {
    QUERN_CHECK(ok(), "{}", status_.ToString());
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  Status status_;
  std::optional<T> value_;
};

namespace internal {
inline Status ToStatus(Status s) { return s; }
template <typename T>
Status ToStatus(Result<T> r) {
  return r.ok() ? OkStatus() : r.status();
}
}  // namespace internal

}  // namespace quern

// Returns from the enclosing function when `expr` (a Status or Result) failed.
#define QUERN_TRY(expr)                                                                         \
  do {                                                                                          \
    if (::quern::Status quern_status = ::quern::internal::ToStatus(expr); !quern_status.ok()) { \
      return quern_status;                                                                      \
    }                                                                                           \
  } while (false)

#define QUERN_CONCAT_INNER(a, b) a##b
#define QUERN_CONCAT(a, b) QUERN_CONCAT_INNER(a, b)

// QUERN_ASSIGN(auto x, F()): declares x from a Result, or returns its error.
#define QUERN_ASSIGN(decl, expr) \
  QUERN_ASSIGN_IMPL(QUERN_CONCAT(quern_result_, __LINE__), decl, expr)
// NOLINTBEGIN(bugprone-macro-parentheses): `decl` is a declaration, `tmp` a name.
#define QUERN_ASSIGN_IMPL(tmp, decl, expr) \
  auto tmp = (expr);                       \
  if (!tmp.ok()) return tmp.status();      \
  decl = std::move(tmp).value()
// NOLINTEND(bugprone-macro-parentheses)
