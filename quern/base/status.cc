#include "quern/base/status.h"

#include <cstdio>
#include <cstdlib>

namespace quern {

const char* StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "OK";
    case StatusCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case StatusCode::kNotFound:
      return "NOT_FOUND";
    case StatusCode::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case StatusCode::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case StatusCode::kUnimplemented:
      return "UNIMPLEMENTED";
    case StatusCode::kCancelled:
      return "CANCELLED";
    case StatusCode::kUnavailable:
      return "UNAVAILABLE";
    case StatusCode::kDataLoss:
      return "DATA_LOSS";
    case StatusCode::kInternal:
      return "INTERNAL";
  }
  return "UNKNOWN";
}

std::string Status::ToString() const {
  return ok() ? "OK" : fmt::format("{}: {}", StatusCodeName(code_), message_);
}

Status Status::WithContext(std::string_view context) const {
  return ok() ? *this : Status(code_, fmt::format("{}: {}", context, message_));
}

namespace internal {
void CheckFailed(const char* file, int line, const char* condition, const std::string& message) {
  fmt::print(stderr, "CHECK failed {}:{}: {}{}{}\n", file, line, condition,
             message.empty() ? "" : ": ", message);
  std::fflush(stderr);
  std::abort();
}
}  // namespace internal

}  // namespace quern
