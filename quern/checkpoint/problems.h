// Everything wrong with a checkpoint, gathered before any weight is read and reported together.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "quern/base/status.h"

namespace quern::checkpoint {

// Collects errors and warnings in the order found. Not thread-safe.
class Problems {
 public:
  template <typename... Args>
  void Error(fmt::format_string<Args...> f, Args&&... args) {
    errors_.push_back(fmt::format(f, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void Warning(fmt::format_string<Args...> f, Args&&... args) {
    warnings_.push_back(fmt::format(f, std::forward<Args>(args)...));
  }

  const std::vector<std::string>& errors() const { return errors_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

  // --strict: warnings become errors.
  void PromoteWarnings();

  // Ok when there are no errors; else one kInvalidArgument whose message has a header line ("N
  // problems in <what>:") and one line per error, at most `max_lines`, then how many more there
  // are.
  Status ToStatus(const std::string& what, size_t max_lines = 40) const;

 private:
  std::vector<std::string> errors_;
  std::vector<std::string> warnings_;
};

}  // namespace quern::checkpoint
