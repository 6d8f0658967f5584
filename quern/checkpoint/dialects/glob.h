// Shell-style patterns over whole module names.
#pragma once

#include <string_view>

namespace quern::checkpoint {

// True when `pattern` has a wildcard: '*', '?' or '['.
bool HasWildcard(std::string_view pattern);

// Python's fnmatch: `*` any run (dots too), `?` any one character, `[abc]`, `[a-c]`, `[!abc]`; an
// unclosed `[` is itself. Case matters. Time at most |pattern| x |name|.
bool GlobMatch(std::string_view pattern, std::string_view name);

// The longest run of plain characters in `pattern`: every name it matches contains it.
std::string_view LongestLiteral(std::string_view pattern);

}  // namespace quern::checkpoint
