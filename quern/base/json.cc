#include "quern/base/json.h"

#include "quern/base/file.h"

namespace quern {
namespace {

// True when brackets nest deeper than `max_depth`. Runs before the parser, whose recursion is not
// bounded.
bool TooDeep(std::string_view text, int max_depth) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > max_depth) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

// nlohmann's text is "[json.exception.parse_error.101] parse error at line 1, column 5: ...";
// people need the rest.
std::string CleanMessage(const char* what) {
  std::string_view text = what;
  if (auto close = text.find("] "); close != std::string_view::npos) text.remove_prefix(close + 2);
  return std::string(text);
}

}  // namespace

Result<Json> ParseJson(std::string_view text, int max_depth) {
  if (TooDeep(text, max_depth)) {
    return InvalidArgument("JSON nests deeper than {} levels", max_depth);
  }
  // The parser takes a NUL for the end of its input and would ignore what follows.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return InvalidArgument("invalid JSON: a NUL byte at offset {}", nul);
  }
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::exception& e) {
    return InvalidArgument("invalid JSON: {}", CleanMessage(e.what()));
  }
}

Result<Json> ReadJsonFile(const std::string& path, int max_depth) {
  QUERN_ASSIGN(std::string text, ReadFile(path));
  Result<Json> json = ParseJson(text, max_depth);
  if (!json.ok()) return json.status().WithContext(path);
  return json;
}

std::string DumpJson(const Json& json, int indent) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace quern
