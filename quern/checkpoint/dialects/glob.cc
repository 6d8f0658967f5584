#include "quern/checkpoint/dialects/glob.h"

#include <cstddef>

namespace quern::checkpoint {
namespace {

// The length of the character class that starts at pattern[i] == '[', 0 when it is not closed. A
// ']' right after the opening (or after '!') is a member, not the end.
size_t ClassLength(std::string_view pattern, size_t i) {
  size_t end = i + 1;
  if (end < pattern.size() && pattern[end] == '!') ++end;
  if (end < pattern.size() && pattern[end] == ']') ++end;
  while (end < pattern.size() && pattern[end] != ']') ++end;
  return end < pattern.size() ? end - i + 1 : 0;
}

// `members` is what stands between the brackets.
bool ClassMatch(std::string_view members, char c) {
  const bool negated = !members.empty() && members[0] == '!';
  if (negated) members.remove_prefix(1);
  const auto code = [](char x) { return static_cast<unsigned char>(x); };
  bool found = false;
  for (size_t i = 0; i < members.size(); ++i) {
    if (i + 2 < members.size() && members[i + 1] == '-') {
      found |= code(members[i]) <= code(c) && code(c) <= code(members[i + 2]);
      i += 2;
    } else {
      found |= members[i] == c;
    }
  }
  return found != negated;
}

// Matches the one-character element at pattern[p] against c and says how long the element is.
bool ElementMatch(std::string_view pattern, size_t p, char c, size_t& length) {
  length = 1;
  if (pattern[p] == '?') return true;
  if (pattern[p] == '[') {
    if (const size_t n = ClassLength(pattern, p); n > 0) {
      length = n;
      return ClassMatch(pattern.substr(p + 1, n - 2), c);
    }
  }
  return pattern[p] == c;
}

}  // namespace

bool HasWildcard(std::string_view pattern) {
  return pattern.find_first_of("*?[") != std::string_view::npos;
}

bool GlobMatch(std::string_view pattern, std::string_view name) {
  constexpr size_t kNone = std::string_view::npos;
  size_t p = 0, n = 0;
  // Where to go on when the last '*' has to swallow one more character.
  size_t star = kNone, star_name = 0;
  while (n < name.size()) {
    size_t length = 0;
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      star_name = n;
    } else if (p < pattern.size() && ElementMatch(pattern, p, name[n], length)) {
      p += length;
      ++n;
    } else if (star != kNone) {
      p = star;
      n = ++star_name;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string_view LongestLiteral(std::string_view pattern) {
  std::string_view best;
  size_t begin = 0;
  for (size_t i = 0; i <= pattern.size();) {
    const bool end = i == pattern.size();
    if (!end && pattern[i] != '*' && pattern[i] != '?' && pattern[i] != '[') {
      ++i;
      continue;
    }
    if (i - begin > best.size()) best = pattern.substr(begin, i - begin);
    // Past a class, or past a lone '[' (which only shortens the literal).
    const size_t skip = !end && pattern[i] == '[' ? ClassLength(pattern, i) : 0;
    i += skip > 0 ? skip : 1;
    begin = i;
  }
  return best;
}

}  // namespace quern::checkpoint
