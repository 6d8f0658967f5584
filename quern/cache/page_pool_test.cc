#include "quern/cache/page_pool.h"

#include <gtest/gtest.h>

#include <set>

namespace quern::cache {
namespace {

TEST(PagePool, HandsOutEachPageOnceAndTakesItBack) {
  PagePool pool(5);
  std::vector<int32_t> a, b;
  ASSERT_TRUE(pool.Take(3, a));
  EXPECT_FALSE(pool.Take(3, b));
  EXPECT_TRUE(b.empty()) << "a failed Take changes nothing";
  ASSERT_TRUE(pool.Take(2, b));
  std::set<int32_t> all(a.begin(), a.end());
  all.insert(b.begin(), b.end());
  EXPECT_EQ(all, (std::set<int32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(pool.num_used(), 5);
  pool.Give(a);
  EXPECT_TRUE(a.empty());
  EXPECT_EQ(pool.num_used(), 2);
}

TEST(PagePoolDeathTest, RefusesAPageGivenTwice) {
  PagePool pool(2);
  std::vector<int32_t> a;
  ASSERT_TRUE(pool.Take(1, a));
  std::vector<int32_t> copy = a;
  pool.Give(a);
  EXPECT_DEATH(pool.Give(copy), "already free");
}

}  // namespace
}  // namespace quern::cache
