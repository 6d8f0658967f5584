// Searching a growing text for markers that may arrive in pieces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace quern::text {

// Length of the longest suffix of `text` that is a proper prefix of `marker`: what must be withheld
// because the rest of the marker may follow. 0 when there is none.
inline size_t PartialMarkerLength(std::string_view text, std::string_view marker) {
  for (size_t length = std::min(text.size(), marker.empty() ? 0 : marker.size() - 1); length > 0;
       --length) {
    if (text.substr(text.size() - length) == marker.substr(0, length)) return length;
  }
  return 0;
}

}  // namespace quern::text
