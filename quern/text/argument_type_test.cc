#include "quern/text/argument_type.h"

#include <gtest/gtest.h>

namespace quern::text {
namespace {

const Json kTools = ParseJson(R"([
  {"type": "function", "function": {"name": "other", "parameters": {}}},
  {"type": "function", "function": {"name": "f", "parameters": {
    "$defs": {"City": {"type": "string"}, "Loop": {"$ref": "#/$defs/Loop"}},
    "properties": {
      "s": {"type": "string"}, "i": {"type": "integer"}, "n": {"type": "number"},
      "b": {"type": "boolean"}, "a": {"type": "array"}, "o": {"type": "object"},
      "list": {"type": ["string", "null"]}, "any": {"anyOf": [{"type": "string"}, {"type": "null"}]},
      "mixed": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
      "ref": {"$ref": "#/$defs/City"}, "lost": {"$ref": "#/$defs/Nowhere"},
      "loop": {"$ref": "#/$defs/Loop"}, "enum": {"enum": ["a", "b"]}, "const": {"const": 3},
      "wild": {}, "odd": true, "odd2": {"type": 7, "anyOf": 3, "enum": {}}}}}},
  {"name": "bare", "input_schema": {"properties": {"s": {"type": "string"}}}},
  {"name": "extra", "parameters": {"additionalProperties": {"type": "string"}}},
  "not a tool", {"name": 3}, {"function": "x"}])")
                        .value();

std::string Value(std::string_view text, std::string_view parameter) {
  return ArgumentToJson(text, FindArgumentType(kTools, "f", parameter));
}

TEST(ArgumentType, FindsTheType) {
  const auto type = [](const char* tool, const char* parameter) {
    return FindArgumentType(kTools, tool, parameter);
  };
  for (const char* parameter : {"s", "ref", "enum"}) {
    EXPECT_TRUE(type("f", parameter).IsString()) << parameter;
  }
  EXPECT_TRUE(type("bare", "s").IsString());
  EXPECT_TRUE(type("extra", "anything").IsString());
  for (const char* parameter : {"list", "any"}) {
    EXPECT_TRUE(type("f", parameter).IsNullableString()) << parameter;
  }
  for (const char* parameter : {"lost", "loop", "wild", "odd", "odd2", "missing"}) {
    EXPECT_FALSE(type("f", parameter).known) << parameter;
  }
  EXPECT_FALSE(type("other", "x").known);
  EXPECT_FALSE(type("no such tool", "x").known);
  EXPECT_FALSE(FindArgumentType(Json(3), "f", "s").known);
  EXPECT_TRUE(type("f", "const").integer);
}

TEST(ArgumentType, StringsStayVerbatim) {
  EXPECT_EQ(Value(" 5 ", "s"), R"(" 5 ")");
  EXPECT_EQ(Value("{\"a\": 1}", "s"), R"("{\"a\": 1}")");
  EXPECT_EQ(Value("null", "s"), R"("null")");
  EXPECT_EQ(Value("null", "any"), "null");
  EXPECT_EQ(Value(" null", "any"), R"(" null")");
  EXPECT_EQ(Value("", "s"), R"("")");
}

TEST(ArgumentType, OtherTypesParse) {
  EXPECT_EQ(Value(" 5 ", "i"), "5");
  EXPECT_EQ(Value("1.0", "n"), "1.0");
  EXPECT_EQ(Value("12345678901234567890123", "i"), "12345678901234567890123");
  EXPECT_EQ(Value("true", "b"), "true");
  EXPECT_EQ(Value("True", "b"), "true");
  EXPECT_EQ(Value("[1, {\"a\": null}]", "a"), "[1, {\"a\": null}]");
  EXPECT_EQ(Value("{'a': True}", "o"), R"({"a": true})");
  EXPECT_EQ(Value(R"({\"a\": \"b\"})", "o"), R"({"a": "b"})");
  EXPECT_EQ(Value("{\\\"a\\\":\n1}", "o"), "{\"a\":\n1}");
  EXPECT_EQ(Value("five", "i"), R"("five")");
  EXPECT_EQ(Value("", "i"), R"("")");
  EXPECT_EQ(Value("NaN", "n"), R"("NaN")");
}

TEST(ArgumentType, UnknownParametersParseWhenTheyCan) {
  EXPECT_EQ(Value("5", "missing"), "5");
  EXPECT_EQ(Value("None", "missing"), "null");
  EXPECT_EQ(Value("'x'", "missing"), R"("x")");
  EXPECT_EQ(Value(" some text ", "missing"), R"(" some text ")");
}

TEST(ArgumentType, AUnionWithStringTakesOnlyWhatItNames) {
  EXPECT_EQ(Value("5", "mixed"), "5");
  EXPECT_EQ(Value("5.5", "mixed"), R"("5.5")");
  EXPECT_EQ(Value("True", "mixed"), R"("True")");
  EXPECT_EQ(Value("[1]", "mixed"), R"("[1]")");
}

TEST(ArgumentType, DeepValuesBecomeText) {
  const std::string deep = std::string(500, '[') + std::string(500, ']');
  EXPECT_EQ(Value(deep, "a"), '"' + deep + '"');
}

}  // namespace
}  // namespace quern::text
