#include "quern/text/utf8.h"

namespace quern::text {
namespace {

// Length of the character a byte begins, 0 for a byte that begins none.
size_t LengthFromLead(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;  // continuations, and C0/C1 that could only begin overlong forms
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  if (lead < 0xF5) return 4;
  return 0;
}

// The second byte is where overlong forms, surrogates and values past U+10FFFF are ruled out.
bool SecondByteFits(unsigned char lead, unsigned char second) {
  unsigned char low = 0x80, high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  return second >= low && second <= high;
}

}  // namespace

Utf8Prefix ClassifyUtf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t length = LengthFromLead(byte(0));
  if (length == 0) return {Utf8Prefix::Kind::kBroken, 1};
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {Utf8Prefix::Kind::kUnfinished, i};
    const bool fits = i == 1 ? SecondByteFits(byte(0), byte(1)) : (byte(i) & 0xC0) == 0x80;
    if (!fits) return {Utf8Prefix::Kind::kBroken, i};
  }
  return {Utf8Prefix::Kind::kCharacter, length};
}

void TakeUtf8(std::string& bytes, std::string& out) {
  size_t at = 0;
  while (at < bytes.size()) {
    const Utf8Prefix next = ClassifyUtf8(std::string_view(bytes).substr(at));
    if (next.kind == Utf8Prefix::Kind::kUnfinished) break;
    if (next.kind == Utf8Prefix::Kind::kCharacter) {
      out.append(bytes, at, next.length);
    } else {
      out.append(kReplacementCharacter);
    }
    at += next.length;
  }
  bytes.erase(0, at);
}

}  // namespace quern::text
