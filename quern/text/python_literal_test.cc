#include "quern/text/python_literal.h"

#include <gtest/gtest.h>

#include <string>

#include "quern/base/json.h"

namespace quern::text {
namespace {

std::string Convert(std::string_view text) {
  return PythonLiteralToJson(text).value_or("(not a literal)");
}

TEST(PythonLiteral, Values) {
  EXPECT_EQ(Convert("True"), "true");
  EXPECT_EQ(Convert(" None "), "null");
  EXPECT_EQ(Convert("[False, None, true]"), "[false, null, true]");
  EXPECT_EQ(Convert("'it''s'"), "(not a literal)");
  EXPECT_EQ(Convert("'say \"x\"'"), R"("say \"x\"")");
  EXPECT_EQ(Convert(R"("it's")"), R"("it's")");
  EXPECT_EQ(Convert(R"('a\'b\n\t\\\x41\u00e9\q')"), "\"a'b\\n\\t\\\\A\xC3\xA9\\\\q\"");
  EXPECT_EQ(Convert(R"('\ud83d\ude42')"), "\"\xF0\x9F\x99\x82\"");
  EXPECT_EQ(Convert(R"('\ud83d')"), "(not a literal)");
  EXPECT_EQ(Convert(R"('\0')"), R"("\u0000")");
  EXPECT_EQ(Convert("{'a': 1, \"b\": [1, (2, 3,)], 4: None, True: {},}"),
            R"({"a": 1, "b": [1, [2, 3]], "4": null, "true": {}})");
  EXPECT_EQ(Convert("()"), "[]");
}

TEST(PythonLiteral, NumbersAreSpelledAsJson) {
  EXPECT_EQ(Convert("+5"), "5");
  EXPECT_EQ(Convert("-.5"), "-0.5");
  EXPECT_EQ(Convert("1."), "1.0");
  EXPECT_EQ(Convert("1_000"), "1000");
  EXPECT_EQ(Convert("007"), "7");
  EXPECT_EQ(Convert("1e5"), "1e5");
  EXPECT_EQ(Convert("2.5E-3"), "2.5e-3");
  EXPECT_EQ(Convert("12345678901234567890123"), "12345678901234567890123");
}

TEST(PythonLiteral, AnythingElseIsNone) {
  for (const char* text : {"", "abc", "1 2", "[1", "[1 2]", "{1}", "{'a' 1}", "'a", "Truex", "-",
                           "e5", "1e", "[,]", "{,}", "f(x)", "[1] x", "'\\x4'", "--1", "0x10"}) {
    EXPECT_EQ(Convert(text), "(not a literal)") << text;
  }
  EXPECT_EQ(Convert(std::string(1000, '[')), "(not a literal)");
  EXPECT_EQ(Convert(std::string(59, '[') + std::string(59, ']')),
            std::string(59, '[') + std::string(59, ']'));
}

TEST(PythonLiteral, EscapedTextParsesBack) {
  std::string all;
  for (char c = 1; c < 127; ++c) all += c;
  all += std::string(1, '\0') + "\xC3\xA9";
  std::string json = "\"";
  AppendJsonEscaped(all, json);
  json += '"';
  EXPECT_EQ(ParseJson(json).value().get<std::string>(), all);
}

}  // namespace
}  // namespace quern::text
