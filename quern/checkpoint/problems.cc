#include "quern/checkpoint/problems.h"

#include <algorithm>
#include <iterator>

namespace quern::checkpoint {

void Problems::PromoteWarnings() {
  std::move(warnings_.begin(), warnings_.end(), std::back_inserter(errors_));
  warnings_.clear();
}

Status Problems::ToStatus(const std::string& what, size_t max_lines) const {
  if (errors_.empty()) return OkStatus();
  std::string text =
      fmt::format("{} problem{} in {}:", errors_.size(), errors_.size() == 1 ? "" : "s", what);
  const size_t shown = std::min(errors_.size(), max_lines);
  for (size_t i = 0; i < shown; ++i) {
    text += "\n  ";
    text += errors_[i];
  }
  if (shown < errors_.size()) text += fmt::format("\n  ... and {} more", errors_.size() - shown);
  return Status(StatusCode::kInvalidArgument, std::move(text));
}

}  // namespace quern::checkpoint
