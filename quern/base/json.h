// JSON in from outside: one place that bounds depth and turns parse errors into Status.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "quern/base/status.h"

namespace quern {

// Keeps object keys in file order: chat templates print tools in the order the client gave.
using Json = nlohmann::ordered_json;

// Parses UTF-8 JSON text. Fails with the byte offset and what was expected there on a syntax error,
// invalid UTF-8, or nesting deeper than `max_depth`. Never throws.
Result<Json> ParseJson(std::string_view text, int max_depth = 64);

// Reads and parses a whole file; errors name the path.
Result<Json> ReadJsonFile(const std::string& path, int max_depth = 64);

// Compact JSON text. Invalid UTF-8 in strings is replaced by U+FFFD, never thrown.
std::string DumpJson(const Json& json, int indent = -1);

}  // namespace quern
