#include <algorithm>

#include "quern/text/detokenizer.h"
#include "quern/text/marker.h"

namespace quern::text {

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  // An empty string would match before the first character of anything; nobody means that.
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

StopStrings::Match StopStrings::EarliestMatch() const {
  Match best{std::string::npos, -1};
  for (size_t i = 0; i < stops_.size(); ++i) {
    const size_t at = held_.find(stops_[i]);
    if (at == std::string::npos) continue;
    const bool shorter =
        at == best.at && stops_[i].size() < stops_[static_cast<size_t>(best.stop)].size();
    if (at < best.at || shorter) best = {at, static_cast<int>(i)};
  }
  return best;
}

std::string StopStrings::Take(size_t count) {
  std::string text = held_.substr(0, count);
  held_.erase(0, count);
  return text;
}

std::string StopStrings::StopAt(const Match& match) {
  std::string text = held_.substr(0, match.at);
  held_.clear();
  matched_ = match.stop;
  return text;
}

std::string StopStrings::Push(std::string_view text) {
  if (stopped()) return {};
  held_ += text;
  size_t partial = 0;
  for (const std::string& stop : stops_) {
    partial = std::max(partial, PartialMarkerLength(held_, stop));
  }
  const size_t undecided_from = held_.size() - partial;
  const Match match = EarliestMatch();
  // A longer stop string that began before this match may still become complete, and would then
  // win.
  if (match.stop >= 0 && match.at <= undecided_from) return StopAt(match);
  return Take(undecided_from);
}

std::string StopStrings::Flush() {
  if (stopped()) return {};
  const Match match = EarliestMatch();
  if (match.stop >= 0) return StopAt(match);
  return Take(held_.size());
}

}  // namespace quern::text
