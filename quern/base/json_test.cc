#include "quern/base/json.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

TEST(Json, KeepsKeyOrderAndNumbers) {
  EXPECT_EQ(DumpJson(*ParseJson(R"({"b": 1.0, "a": [1, true, null, "é"]})")),
            R"({"b":1.0,"a":[1,true,null,"é"]})");
}

TEST(Json, SyntaxErrorsSayWhere) {
  const Status s = ParseJson("{\"a\": }").status();
  EXPECT_EQ(s.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(s.message().find("column 7"), std::string::npos) << s.message();
}

TEST(Json, RefusesDeepNestingBeforeParsing) {
  EXPECT_TRUE(ParseJson(std::string(64, '[') + std::string(64, ']')).ok());
  const Status s = ParseJson(std::string(1 << 20, '[')).status();
  EXPECT_EQ(s.message(), "JSON nests deeper than 64 levels");
  // Brackets inside strings are text.
  EXPECT_TRUE(ParseJson("[\"" + std::string(200, '[') + "\\\"[\"]").ok());
}

TEST(Json, RefusesInvalidUtf8AndNulBytes) {
  EXPECT_FALSE(ParseJson("\"\xff\"").ok());
  EXPECT_FALSE(ParseJson(std::string_view("\0", 1)).ok());
  EXPECT_FALSE(ParseJson(std::string_view("1\0junk", 6)).ok());
  EXPECT_FALSE(ParseJson("").ok());
}

TEST(Json, DumpReplacesInvalidUtf8) { EXPECT_EQ(DumpJson(Json("a\xff")), "\"a\xef\xbf\xbd\""); }

}  // namespace
}  // namespace quern
