// Typed, bounded reads of a config's JSON object, one message for each way a field can be wrong.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "quern/base/json.h"
#include "quern/checkpoint/problems.h"

namespace quern::checkpoint {

// Reads fields of one object. A field that is absent or null counts as "not there". Mistyped and
// out-of-range values are errors in `problems` and read as the lower bound (or the given default),
// so that the caller can go on.
class ConfigFields {
 public:
  // `file` stands in front of messages. `json` may be anything; a non-object has no fields.
  ConfigFields(const Json& json, std::string file, Problems& problems);

  // The value if it is there and not null.
  const Json* Find(const char* name) const;
  bool Has(const char* name) const { return Find(name) != nullptr; }

  // Required integer in [low, high].
  int64_t Int(const char* name, int64_t low, int64_t high) const;
  // The same under the first of several names that is there; messages use the first.
  int64_t Int(std::initializer_list<const char*> names, int64_t low, int64_t high) const;
  int64_t IntOr(const char* name, int64_t low, int64_t high, int64_t otherwise) const;
  std::optional<int64_t> OptionalInt(const char* name, int64_t low, int64_t high) const;

  // Required number in [low, high]; integers count as numbers.
  double Number(const char* name, double low, double high) const;
  double NumberOr(const char* name, double low, double high, double otherwise) const;
  std::optional<double> OptionalNumber(const char* name, double low, double high) const;

  bool BoolOr(const char* name, bool otherwise) const;
  // Nothing when it is not there (no error).
  std::optional<std::string> OptionalString(const char* name) const;
  // A list of strings; nothing when it is not there or, with an error, when it is something else.
  std::optional<std::vector<std::string>> OptionalStrings(const char* name) const;

  // An integer or a list of integers in [0, high]: token ids. Empty when it is not there.
  std::vector<int32_t> TokenIds(const char* name, int64_t high) const;

  // For rules of the caller: an error with the file's name in front.
  template <typename... Args>
  void Error(fmt::format_string<Args...> f, Args&&... args) const {
    problems_.Error("{}: {}", file_, fmt::format(f, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void Warning(fmt::format_string<Args...> f, Args&&... args) const {
    problems_.Warning("{}: {}", file_, fmt::format(f, std::forward<Args>(args)...));
  }

 private:
  std::optional<int64_t> ReadInt(const char* name, const Json& value, int64_t low,
                                 int64_t high) const;

  const Json& json_;
  std::string file_;
  Problems& problems_;
};

// A JSON value as messages show it: compact and cut at 80 bytes.
std::string ShowJson(const Json& value);

}  // namespace quern::checkpoint
