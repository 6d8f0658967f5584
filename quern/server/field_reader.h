// Typed reading of a JSON object's fields: every complaint names the field, what came and what was
// wanted.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "quern/base/json.h"
#include "quern/server/errors.h"

namespace quern::server {

// A value for error messages: "the string \"abc\"", "3.5", "an object", cut to a line.
std::string DescribeJson(const Json& value);

// A JSON request body as an object, or a 400 that says what is wrong. Beyond syntax it bounds what
// parsing costs: nesting of 64 levels and kMaxMembers members per object (keys are kept in order,
// so looking one up is linear).
inline constexpr int kMaxMembers = 1024;
ApiResult<Json> ParseBody(std::string_view body);

// Reads fields of one object and keeps the first error; after it every read gives nothing. A null
// is an absent field. The object must outlive the reader.
class FieldReader {
 public:
  // `path` names the object in errors ("messages[2]"); empty for the body itself.
  explicit FieldReader(const Json& object, std::string path = "");

  // The field if it is there and not null. Marks the name as known.
  const Json* Find(const char* name);
  std::optional<bool> Bool(const char* name);
  // Integral numbers only (3.0 counts) in [low, high].
  std::optional<int64_t> Integer(const char* name, int64_t low, int64_t high);
  std::optional<double> Number(const char* name, double low, double high);
  std::optional<std::string> String(const char* name);
  const Json* Array(const char* name);
  const Json* Object(const char* name);

  // Fields taken without effect, whatever they hold.
  void Accept(std::initializer_list<const char*> names);
  // Fields that change the output but are not implemented: an error when present.
  void Refuse(const char* name);
  // The same, unless the value is `neutral`, which asks for nothing.
  void RefuseUnless(const char* name, const Json& neutral);
  // An error for the first field no call above has named.
  void RefuseUnknown();

  // Records an error about a field ("" = the object), unless there is one already.
  void Fail(std::string_view name, std::string message, std::string code = "");
  void Fail(ApiError error);
  // "messages[2].content" for "content".
  std::string PathOf(std::string_view name) const;

  bool ok() const { return !error_.has_value(); }
  const ApiError& error() const { return *error_; }

 private:
  void WrongType(const char* name, const Json& value, const char* wanted);

  const Json& object_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
  std::optional<ApiError> error_;
};

}  // namespace quern::server
