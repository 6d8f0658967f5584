#include "quern/server/field_reader.h"

#include <cmath>
#include <vector>

namespace quern::server {
namespace {

constexpr int kMaxDepth = 64;
constexpr size_t kMaxShown = 60;  // characters of a value or name repeated in a message

std::string Shortened(std::string text) {
  if (text.size() <= kMaxShown) return text;
  size_t end = kMaxShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

// True when some object of the text has more than kMaxMembers members. Looks at brackets and commas
// only; text that is not JSON is left to the parser.
bool HasHugeObject(std::string_view text) {
  std::vector<int> commas;  // one per open bracket; -1 for arrays, which may be long
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
      continue;
    }
    switch (c) {
      case '"':
        in_string = true;
        break;
      case '{':
      case '[':
        if (commas.size() > kMaxDepth) return false;  // the parser says so
        commas.push_back(c == '{' ? 0 : -1);
        break;
      case '}':
      case ']':
        if (!commas.empty()) commas.pop_back();
        break;
      case ',':
        if (!commas.empty() && commas.back() >= 0 && ++commas.back() >= kMaxMembers) return true;
        break;
      default:
        break;
    }
  }
  return false;
}

}  // namespace

std::string DescribeJson(const Json& value) {
  switch (value.type()) {
    case Json::value_t::string:
      return "the string \"" + Shortened(value.get_ref<const std::string&>()) + "\"";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return fmt::format("a list of {}", value.size());
    default:
      return Shortened(DumpJson(value));
  }
}

ApiResult<Json> ParseBody(std::string_view body) {
  if (body.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return BadField("", "the request has no body; send a JSON object", "invalid_json");
  }
  if (HasHugeObject(body)) {
    return BadField("",
                    fmt::format("a JSON object in the body has more than {} members", kMaxMembers),
                    "invalid_json");
  }
  Result<Json> json = ParseJson(body, kMaxDepth);
  if (!json.ok()) {
    return BadField("", "the request body cannot be read: " + json.status().message(),
                    "invalid_json");
  }
  if (!json->is_object()) {
    return BadField("", "the request body is " + DescribeJson(*json) + ", want a JSON object",
                    "invalid_json");
  }
  return std::move(*json);
}

FieldReader::FieldReader(const Json& object, std::string path)
    : object_(object), path_(std::move(path)) {
  if (!object.is_object())
    Fail("", "got " + DescribeJson(object) + ", want an object", "invalid_type");
}

const Json* FieldReader::Find(const char* name) {
  known_.insert(name);
  if (!ok()) return nullptr;
  const auto it = object_.find(name);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

std::optional<bool> FieldReader::Bool(const char* name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) {
    WrongType(name, *value, "true or false");
    return std::nullopt;
  }
  return value->get<bool>();
}

std::optional<int64_t> FieldReader::Integer(const char* name, int64_t low, int64_t high) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  int64_t number = 0;
  bool in_range = true;
  if (value->is_number_unsigned()) {
    const uint64_t u = value->get<uint64_t>();
    in_range = u <= static_cast<uint64_t>(INT64_MAX);
    number = static_cast<int64_t>(u);
  } else if (value->is_number_integer()) {
    number = value->get<int64_t>();
  } else if (value->is_number_float() && std::trunc(value->get<double>()) == value->get<double>()) {
    const double d = value->get<double>();
    in_range = std::abs(d) <= 9007199254740992.0;  // beyond 2^53 a double is not one integer
    number = in_range ? static_cast<int64_t>(d) : 0;
  } else {
    WrongType(name, *value, "an integer");
    return std::nullopt;
  }
  if (!in_range || number < low || number > high) {
    Fail(name,
         fmt::format("{}: got {}, want an integer in [{}, {}]", PathOf(name), DescribeJson(*value),
                     low, high),
         "out_of_range");
    return std::nullopt;
  }
  return number;
}

std::optional<double> FieldReader::Number(const char* name, double low, double high) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    WrongType(name, *value, "a number");
    return std::nullopt;
  }
  const double number = value->get<double>();
  if (!(number >= low && number <= high)) {
    Fail(name,
         fmt::format("{}: got {}, want a number in [{}, {}]", PathOf(name), DescribeJson(*value),
                     low, high),
         "out_of_range");
    return std::nullopt;
  }
  return number;
}

std::optional<std::string> FieldReader::String(const char* name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    WrongType(name, *value, "a string");
    return std::nullopt;
  }
  return value->get<std::string>();
}

const Json* FieldReader::Array(const char* name) {
  const Json* value = Find(name);
  if (value != nullptr && !value->is_array()) {
    WrongType(name, *value, "a list");
    return nullptr;
  }
  return value;
}

const Json* FieldReader::Object(const char* name) {
  const Json* value = Find(name);
  if (value != nullptr && !value->is_object()) {
    WrongType(name, *value, "an object");
    return nullptr;
  }
  return value;
}

void FieldReader::Accept(std::initializer_list<const char*> names) {
  known_.insert(names.begin(), names.end());
}

void FieldReader::Refuse(const char* name) {
  if (Find(name) != nullptr) {
    Fail(name,
         fmt::format("parameter '{}' is not implemented by quern; leave it out", PathOf(name)),
         "unsupported_parameter");
  }
}

void FieldReader::RefuseUnless(const char* name, const Json& neutral) {
  const Json* value = Find(name);
  if (value != nullptr && *value != neutral) {
    Fail(name,
         fmt::format("{}: got {}; quern implements only {} here", PathOf(name),
                     DescribeJson(*value), DumpJson(neutral)),
         "unsupported_value");
  }
}

void FieldReader::RefuseUnknown() {
  if (!ok()) return;
  for (const auto& [name, value] : object_.items()) {
    if (known_.find(name) == known_.end() && !value.is_null()) {
      Fail(Shortened(name),
           fmt::format("unknown parameter '{}'; docs/api.md lists those this server takes",
                       PathOf(Shortened(name))),
           "unknown_parameter");
      return;
    }
  }
}

void FieldReader::Fail(std::string_view name, std::string message, std::string code) {
  if (!ok()) return;
  error_ = BadField(PathOf(name), std::move(message), std::move(code));
}

void FieldReader::Fail(ApiError error) {
  if (ok()) error_ = std::move(error);
}

std::string FieldReader::PathOf(std::string_view name) const {
  if (path_.empty()) return std::string(name);
  if (name.empty()) return path_;
  if (name.front() == '[') return path_ + std::string(name);
  return path_ + "." + std::string(name);
}

void FieldReader::WrongType(const char* name, const Json& value, const char* wanted) {
  Fail(name, fmt::format("{}: got {}, want {}", PathOf(name), DescribeJson(value), wanted),
       "invalid_type");
}

}  // namespace quern::server
