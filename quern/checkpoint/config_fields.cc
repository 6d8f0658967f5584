#include "quern/checkpoint/config_fields.h"

#include <cmath>
#include <utility>

#include "quern/checkpoint/safetensors.h"

namespace quern::checkpoint {

std::string ShowJson(const Json& value) {
  // Large values are named, not printed: dumping a hostile list only to cut it would cost its size
  // again.
  if (value.is_object()) return fmt::format("an object of {} fields", value.size());
  if (value.is_array()) return fmt::format("a list of {} elements", value.size());
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    return fmt::format("\"{}\"", Printable(text.size() > 80 ? text.substr(0, 80) : text));
  }
  return DumpJson(value);
}

ConfigFields::ConfigFields(const Json& json, std::string file, Problems& problems)
    : json_(json), file_(std::move(file)), problems_(problems) {}

const Json* ConfigFields::Find(const char* name) const {
  if (!json_.is_object()) return nullptr;
  const auto it = json_.find(name);
  return it == json_.end() || it->is_null() ? nullptr : &*it;
}

std::optional<int64_t> ConfigFields::ReadInt(const char* name, const Json& value, int64_t low,
                                             int64_t high) const {
  // An unsigned value over the int64 range would come out negative: treat it as out of range.
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t{1} << 62);
  if (fits && value.get<int64_t>() >= low && value.get<int64_t>() <= high) {
    return value.get<int64_t>();
  }
  Error("{} is {}, want an integer from {} to {}", name, ShowJson(value), low, high);
  return std::nullopt;
}

int64_t ConfigFields::Int(const char* name, int64_t low, int64_t high) const {
  return Int({name}, low, high);
}

int64_t ConfigFields::Int(std::initializer_list<const char*> names, int64_t low,
                          int64_t high) const {
  for (const char* name : names) {
    if (const Json* value = Find(name)) return ReadInt(name, *value, low, high).value_or(low);
  }
  Error("{} is missing, want an integer from {} to {}", *names.begin(), low, high);
  return low;
}

int64_t ConfigFields::IntOr(const char* name, int64_t low, int64_t high, int64_t otherwise) const {
  return OptionalInt(name, low, high).value_or(otherwise);
}

std::optional<int64_t> ConfigFields::OptionalInt(const char* name, int64_t low,
                                                 int64_t high) const {
  const Json* value = Find(name);
  return value == nullptr ? std::nullopt : ReadInt(name, *value, low, high);
}

double ConfigFields::Number(const char* name, double low, double high) const {
  if (!Has(name)) {
    Error("{} is missing, want a number from {} to {}", name, low, high);
    return low;
  }
  return NumberOr(name, low, high, low);
}

double ConfigFields::NumberOr(const char* name, double low, double high, double otherwise) const {
  return OptionalNumber(name, low, high).value_or(otherwise);
}

std::optional<double> ConfigFields::OptionalNumber(const char* name, double low,
                                                   double high) const {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) {
    const double number = value->get<double>();
    if (std::isfinite(number) && number >= low && number <= high) return number;
  }
  Error("{} is {}, want a number from {} to {}", name, ShowJson(*value), low, high);
  return std::nullopt;
}

bool ConfigFields::BoolOr(const char* name, bool otherwise) const {
  const Json* value = Find(name);
  if (value == nullptr) return otherwise;
  if (value->is_boolean()) return value->get<bool>();
  Error("{} is {}, want true or false", name, ShowJson(*value));
  return otherwise;
}

std::optional<std::string> ConfigFields::OptionalString(const char* name) const {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  Error("{} is {}, want a string", name, ShowJson(*value));
  return std::nullopt;
}

std::optional<std::vector<std::string>> ConfigFields::OptionalStrings(const char* name) const {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) {
    Error("{} is {}, want a list of strings", name, ShowJson(*value));
    return std::nullopt;
  }
  std::vector<std::string> out;
  for (const Json& element : *value) {
    if (!element.is_string()) {
      Error("{}[{}] is {}, want a string", name, out.size(), ShowJson(element));
      return std::nullopt;
    }
    out.push_back(element.get<std::string>());
  }
  return out;
}

std::vector<int32_t> ConfigFields::TokenIds(const char* name, int64_t high) const {
  constexpr size_t kMaxIds = 1024;
  std::vector<int32_t> ids;
  const Json* value = Find(name);
  if (value == nullptr) return ids;
  if (!value->is_array()) {
    if (const auto id = ReadInt(name, *value, 0, high)) ids.push_back(static_cast<int32_t>(*id));
    return ids;
  }
  if (value->size() > kMaxIds) {
    Error("{} lists {} token ids, over the limit of {}", name, value->size(), kMaxIds);
    return ids;
  }
  for (const Json& element : *value) {
    const auto id = ReadInt(name, element, 0, high);
    if (!id) return {};
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

}  // namespace quern::checkpoint
