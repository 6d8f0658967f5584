// Values as Python prints them, which models write where JSON was wanted: True, None, 'single
// quotes', (1, 2).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quern::text {

// Appends `text` as the inside of a JSON string: quotes, backslashes and control characters
// escaped, everything else (non-ASCII too) as it is. `text` must be valid UTF-8.
void AppendJsonEscaped(std::string_view text, std::string& out);

// The JSON text of a Python-like literal: constants (true, false and null too), numbers, strings in
// either kind of quotes, lists, tuples (as arrays) and dicts. nullopt for anything else, or nesting
// deeper than 60.
std::optional<std::string> PythonLiteralToJson(std::string_view text);

}  // namespace quern::text
