// Regular expressions from config files, matched at bounded cost.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "quern/base/status.h"

namespace quern::checkpoint {

// A compiled Perl-style expression (Python's re syntax, as far as PCRE2 shares it). Move-only; not
// thread-safe.
class Regex {
 public:
  // kInvalidArgument with what is wrong and where for a pattern that does not compile or is over
  // 4096 bytes.
  static Result<Regex> Compile(const std::string& pattern);

  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // kTooCostly: gave up after a fixed number of steps, as patterns like "(a+)+$" make one do.
  enum class Outcome { kNo, kYes, kTooCostly };
  // Whether a match starts at the start of `text` (Python's re.match); it may end anywhere.
  Outcome MatchStart(std::string_view text) const;

 private:
  struct Impl;
  explicit Regex(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern::checkpoint
