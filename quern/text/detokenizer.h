// Token ids to text as they arrive: never half a character, stop strings cut exactly.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "quern/text/tokenizer.h"

namespace quern::text {

// Bytes of tokens in, whole UTF-8 characters out. A sequence that can no longer become valid gives
// U+FFFD as soon as that is certain, the same as decoding everything at once. One per sequence; not
// thread-safe.
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens = true);

  // Text that became certain with this token; may be empty.
  std::string Push(int32_t token);
  // What is left at the end: an unfinished character is one U+FFFD.
  std::string Flush();

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_tokens_;
  std::string pending_;  // at most 3 bytes
};

// Withholds the longest suffix that could begin a stop string. When one is complete, emits the text
// before it and nothing ever after. The match that begins earliest in the text wins, whatever the
// chunking: while a stop string that began before a complete one ("abcd" before "bc") may still be
// completed, neither is decided. Of two that begin at the same place the shorter wins. Empty stop
// strings are ignored.
class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> stops);

  // Text that may be shown now.
  std::string Push(std::string_view text);
  // The end of the text: what was withheld. stopped() may become true here, when only an undecided
  // match is left.
  std::string Flush();
  bool stopped() const { return matched_ >= 0; }
  // Which stop string ended it; only when stopped().
  const std::string& matched() const { return stops_[static_cast<size_t>(matched_)]; }

 private:
  struct Match {
    size_t at;  // in held_
    int stop;   // in stops_, -1 for none
  };
  Match EarliestMatch() const;
  std::string Take(size_t count);
  std::string StopAt(const Match& match);

  std::vector<std::string> stops_;
  std::string held_;
  int matched_ = -1;
};

}  // namespace quern::text
