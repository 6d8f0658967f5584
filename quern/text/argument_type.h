// How the text of a tool-call argument becomes a JSON value: by the type its tool's schema gives
// it.
#pragma once

#include <string>
#include <string_view>

#include "quern/base/json.h"

namespace quern::text {

// What the schema of one parameter allows.
struct ArgumentType {
  bool known = false;  // the tool, the parameter and a type for it were found
  bool string = false;
  bool null = false;
  bool boolean = false;
  bool number = false;
  bool integer = false;
  bool array = false;
  bool object = false;

  // A plain string: its text can be streamed as it comes.
  bool IsString() const { return string && !null && !OtherThanStringOrNull(); }
  // A string or null: as a string, unless the whole text is "null".
  bool IsNullableString() const { return string && null && !OtherThanStringOrNull(); }
  bool OtherThanStringOrNull() const { return boolean || number || integer || array || object; }
};

// The type of parameter `parameter` of tool `tool` in a list of OpenAI tools ({"function": {...}},
// or the function itself; "input_schema" is read like "parameters"). Understands type lists,
// anyOf/oneOf/allOf, enum, const, local $ref and additionalProperties.
ArgumentType FindArgumentType(const Json& tools, std::string_view tool, std::string_view parameter);

// The JSON text of an argument whose whole text is `text`: verbatim as a string for string types;
// else the first of JSON, JSON after unescaping, a Python-like literal that parses and that the
// type allows; else as a string.
std::string ArgumentToJson(std::string_view text, const ArgumentType& type);

}  // namespace quern::text
