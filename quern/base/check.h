// QUERN_CHECK: a promise of our own that must hold. Prints the values and aborts when it does not.
#pragma once

#include <fmt/format.h>

#include <string>

namespace quern::internal {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              const std::string& message);
inline std::string CheckMessage() { return {}; }
template <typename... Args>
std::string CheckMessage(fmt::format_string<Args...> f, Args&&... args) {
  return fmt::format(f, std::forward<Args>(args)...);
}
}  // namespace quern::internal

// QUERN_CHECK(refs > 0, "freeing page {} of sequence {}, refs = {}", page, seq, refs);
#define QUERN_CHECK(condition, ...)                                                 \
  do {                                                                              \
    if (!(condition)) [[unlikely]] {                                                \
      ::quern::internal::CheckFailed(__FILE__, __LINE__, #condition,                \
                                     ::quern::internal::CheckMessage(__VA_ARGS__)); \
    }                                                                               \
  } while (false)

// For inner loops: compiled out in release builds.
#ifdef NDEBUG
#define QUERN_DCHECK(condition, ...) \
  do {                               \
  } while (false)
#else
#define QUERN_DCHECK(condition, ...) QUERN_CHECK(condition, __VA_ARGS__)
#endif
