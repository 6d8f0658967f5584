#include "quern/base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace quern {
namespace {

TEST(ThreadPool, RunsEachIndexOnce) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int64_t count : {0, 1, 2, 1000}) {
      std::vector<std::atomic<int>> hits(static_cast<size_t>(count));
      std::atomic<bool> worker_ok{true};
      pool.ParallelFor(count, [&](int64_t i, int worker) {
        ++hits[static_cast<size_t>(i)];
        if (worker < 0 || worker >= threads) worker_ok = false;
      });
      for (auto& h : hits) EXPECT_EQ(h, 1);
      EXPECT_TRUE(worker_ok);
    }
  }
}

TEST(ThreadPool, ManyShortLoopsBackToBack) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  for (int loop = 0; loop < 5000; ++loop) {
    pool.ParallelFor(4, [&](int64_t i, int) { sum += i; });
  }
  EXPECT_EQ(sum, 5000 * 6);
}

}  // namespace
}  // namespace quern
