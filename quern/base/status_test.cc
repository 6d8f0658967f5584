#include "quern/base/status.h"

#include <gtest/gtest.h>

#include <vector>

namespace quern {
namespace {

Result<int> Half(int x) {
  if (x % 2 != 0) return InvalidArgument("{} is odd; give an even number", x);
  return x / 2;
}
Result<int> Quarter(int x) {
  QUERN_ASSIGN(const int half, Half(x));
  return Half(half);
}

TEST(Status, CarriesCodeAndMessage) {
  const Status s = Quarter(6).status();
  EXPECT_EQ(s.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(s.message(), "3 is odd; give an even number");
  EXPECT_EQ(s.WithContext("quarter").message(), "quarter: 3 is odd; give an even number");
  EXPECT_EQ(s.ToString(), "INVALID_ARGUMENT: 3 is odd; give an even number");
}

TEST(Status, ResultHoldsTheValue) {
  ASSERT_TRUE(Quarter(8).ok());
  EXPECT_EQ(*Quarter(8), 2);
}

Result<std::vector<int>> Numbers() { return std::vector<int>{1, 2, 3}; }

TEST(Status, LoopOverATemporaryResultIsSafe) {
  int sum = 0;
  for (int x : Numbers().value()) sum += x;
  for (int x : *Numbers()) sum += x;
  EXPECT_EQ(sum, 12);
}

TEST(StatusDeathTest, ReadingAnErrorAsAValueSaysWhy) {
  EXPECT_DEATH((void)Half(3).value(), "3 is odd");
}

}  // namespace
}  // namespace quern
