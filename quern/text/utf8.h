// UTF-8 as Unicode defines well-formed text (Table 3-7 of the standard).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quern::text {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// What the bytes at the start of a text are.
struct Utf8Prefix {
  enum class Kind {
    kCharacter,  // `length` bytes are one character
    kBroken,     // `length` bytes can't be part of a character: the longest run that began like one
    kUnfinished,  // all bytes there are begin a character that is not complete yet
  } kind;
  size_t length;
};

// Looks at the first bytes of a non-empty `text`.
Utf8Prefix ClassifyUtf8(std::string_view text);

// Moves whole characters from the front of `bytes` to the end of `out`, each broken run as one
// U+FFFD (the same division the standard recommends and Rust's from_utf8_lossy uses). Leaves an
// unfinished character, at most 3 bytes.
void TakeUtf8(std::string& bytes, std::string& out);

}  // namespace quern::text
