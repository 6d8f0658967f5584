#include "quern/checkpoint/problems.h"

#include <gtest/gtest.h>

namespace quern::checkpoint {
namespace {

TEST(Problems, NoneIsOk) {
  Problems problems;
  EXPECT_TRUE(problems.ToStatus("x").ok());
  problems.Warning("only a warning");
  EXPECT_TRUE(problems.ToStatus("x").ok());
}

TEST(Problems, AllErrorsInOneStatus) {
  Problems problems;
  problems.Error("first {}", 1);
  EXPECT_EQ(problems.ToStatus("/m").message(), "1 problem in /m:\n  first 1");
  problems.Error("second");
  problems.Error("third");
  EXPECT_EQ(problems.ToStatus("/m").message(), "3 problems in /m:\n  first 1\n  second\n  third");
  EXPECT_EQ(problems.ToStatus("/m", 2).message(),
            "3 problems in /m:\n  first 1\n  second\n  ... and 1 more");
  EXPECT_EQ(problems.ToStatus("/m").code(), StatusCode::kInvalidArgument);
}

TEST(Problems, StrictPromotesWarnings) {
  Problems problems;
  problems.Error("e");
  problems.Warning("w");
  problems.PromoteWarnings();
  EXPECT_EQ(problems.errors(), (std::vector<std::string>{"e", "w"}));
  EXPECT_TRUE(problems.warnings().empty());
}

}  // namespace
}  // namespace quern::checkpoint
