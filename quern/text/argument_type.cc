#include "quern/text/argument_type.h"

#include <optional>

#include "quern/text/python_literal.h"

namespace quern::text {
namespace {

// Deep enough for any schema a person wrote; ends $ref cycles.
constexpr int kMaxSchemaDepth = 16;
// Leaves room, below ParseJson's own limit, for the arguments object around a value.
constexpr int kMaxValueDepth = 60;

// Member `key` of an object, or null when `json` is no object or has none.
const Json* Member(const Json& json, std::string_view key) {
  if (!json.is_object()) return nullptr;
  const auto it = json.find(std::string(key));
  return it == json.end() ? nullptr : &*it;
}

void Allow(std::string_view name, ArgumentType& type) {
  if (name == "string") type.string = true;
  if (name == "null") type.null = true;
  if (name == "boolean") type.boolean = true;
  if (name == "number") type.number = true;
  if (name == "integer") type.integer = true;
  if (name == "array") type.array = true;
  if (name == "object") type.object = true;
}

void AllowTypeOf(const Json& value, ArgumentType& type) {
  if (value.is_string()) type.string = true;
  if (value.is_null()) type.null = true;
  if (value.is_boolean()) type.boolean = true;
  if (value.is_number_integer()) type.integer = true;
  if (value.is_number_float()) type.number = true;
  if (value.is_array()) type.array = true;
  if (value.is_object()) type.object = true;
}

// "#/$defs/City" -> that place in `root`, or null.
const Json* ResolveReference(const Json& root, std::string_view reference) {
  if (reference.substr(0, 2) != "#/") return nullptr;
  reference.remove_prefix(2);
  const Json* place = &root;
  while (place != nullptr) {
    const size_t slash = reference.find('/');
    place = Member(*place, reference.substr(0, slash));
    if (slash == std::string_view::npos) return place;
    reference.remove_prefix(slash + 1);
  }
  return nullptr;
}

void CollectTypes(const Json& root, const Json& schema, int depth, ArgumentType& type) {
  if (depth > kMaxSchemaDepth) return;
  if (const Json* reference = Member(schema, "$ref"); reference && reference->is_string()) {
    const Json* target = ResolveReference(root, reference->get_ref<const std::string&>());
    if (target != nullptr) CollectTypes(root, *target, depth + 1, type);
  }
  for (const char* key : {"anyOf", "oneOf", "allOf"}) {
    const Json* choices = Member(schema, key);
    if (choices == nullptr || !choices->is_array()) continue;
    for (const Json& choice : *choices) CollectTypes(root, choice, depth + 1, type);
  }
  if (const Json* name = Member(schema, "type")) {
    if (name->is_string()) Allow(name->get_ref<const std::string&>(), type);
    if (name->is_array()) {
      for (const Json& one : *name) {
        if (one.is_string()) Allow(one.get_ref<const std::string&>(), type);
      }
    }
    return;
  }
  if (const Json* values = Member(schema, "enum"); values && values->is_array()) {
    for (const Json& value : *values) AllowTypeOf(value, type);
  }
  if (const Json* value = Member(schema, "const")) AllowTypeOf(*value, type);
}

const Json* FindParameters(const Json& tools, std::string_view name) {
  if (!tools.is_array()) return nullptr;
  for (const Json& tool : tools) {
    const Json* function = Member(tool, "function");
    if (function == nullptr) function = &tool;
    const Json* tool_name = Member(*function, "name");
    if (tool_name == nullptr || !tool_name->is_string()) continue;
    if (tool_name->get_ref<const std::string&>() != name) continue;
    const Json* parameters = Member(*function, "parameters");
    return parameters != nullptr ? parameters : Member(*function, "input_schema");
  }
  return nullptr;
}

bool Allows(const ArgumentType& type, const Json& value) {
  // With no type to hold it against, or one that can't be met by falling back to text, any value
  // will do.
  if (!type.known || !type.string) return true;
  ArgumentType is;
  AllowTypeOf(value, is);
  return (is.string && type.string) || (is.null && type.null) || (is.boolean && type.boolean) ||
         (is.integer && (type.integer || type.number)) || (is.number && type.number) ||
         (is.array && type.array) || (is.object && type.object);
}

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// `text` itself when it is JSON that `type` allows. Not printed anew: that would round long
// numbers.
std::optional<std::string> AsJson(std::string_view text, const ArgumentType& type) {
  const Result<Json> value = ParseJson(text, kMaxValueDepth);
  if (!value.ok() || !Allows(type, *value)) return std::nullopt;
  return std::string(text);
}

// {\"a\": 1}: JSON that was escaped once too often.
std::optional<std::string> Unescaped(std::string_view text) {
  if (text.find('\\') == std::string_view::npos) return std::nullopt;
  std::string quoted = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      AppendJsonEscaped(std::string_view(&c, 1), quoted);
    } else {
      quoted += c;
    }
  }
  quoted += '"';
  const Result<Json> value = ParseJson(quoted);
  if (!value.ok() || !value->is_string()) return std::nullopt;
  return value->get<std::string>();
}

std::string AsString(std::string_view text) {
  std::string json = "\"";
  AppendJsonEscaped(text, json);
  return json + '"';
}

}  // namespace

ArgumentType FindArgumentType(const Json& tools, std::string_view tool,
                              std::string_view parameter) {
  ArgumentType type;
  const Json* parameters = FindParameters(tools, tool);
  if (parameters == nullptr) return type;
  const Json* schema = nullptr;
  if (const Json* properties = Member(*parameters, "properties")) {
    schema = Member(*properties, parameter);
  }
  if (schema == nullptr) schema = Member(*parameters, "additionalProperties");
  if (schema == nullptr) return type;
  CollectTypes(*parameters, *schema, 0, type);
  type.known = type.string || type.null || type.OtherThanStringOrNull();
  return type;
}

std::string ArgumentToJson(std::string_view text, const ArgumentType& type) {
  if (type.IsString()) return AsString(text);
  if (type.IsNullableString()) return text == "null" ? "null" : AsString(text);
  const std::string_view trimmed = Trim(text);
  if (auto json = AsJson(trimmed, type)) return *json;
  if (const auto unescaped = Unescaped(trimmed)) {
    if (auto json = AsJson(Trim(*unescaped), type)) return *json;
  }
  if (const auto literal = PythonLiteralToJson(trimmed)) {
    if (auto json = AsJson(*literal, type)) return *json;
  }
  return AsString(text);
}

}  // namespace quern::text
