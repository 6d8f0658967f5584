#include "quern/engine/drafting/draft_controller.h"

#include <gtest/gtest.h>

namespace quern::engine {
namespace {

// A machine where a step takes 10 ms, a row adds `row_ms` and a draft takes 1 ms.
void TeachCosts(DraftController& controller, double row_ms) {
  for (int i = 0; i < 200; ++i) {
    const int64_t rows = 1 + i % 6;
    controller.ObserveStep(rows, 0.010 + 0.001 * row_ms * static_cast<double>(rows));
    controller.ObserveDrafting(5, 0.005);
  }
}

TEST(DraftControllerTest, DraftsDeepWhereDraftsAreRight) {
  DraftController controller({.mode = DraftMode::kAuto, .num_drafts = 5});
  TeachCosts(controller, 0.1);
  DraftRecord record;
  for (int i = 0; i < 50; ++i) controller.ObserveRound(record, 5, 5);
  EXPECT_EQ(controller.Depth(record, 1), 5);
  EXPECT_NEAR(controller.ExpectedTokens(record, 5), 6.0, 0.3);
  EXPECT_EQ(record.accepted, 250);
}

TEST(DraftControllerTest, EndsWhereTheyAreWrong) {
  DraftController controller({.mode = DraftMode::kAuto, .num_drafts = 5});
  TeachCosts(controller, 0.1);
  DraftRecord record;
  int rounds = 0;
  while (controller.Depth(record, 1) > 0 && rounds < 100) {
    controller.ObserveRound(record, controller.Depth(record, 1), 0);
    ++rounds;
  }
  EXPECT_EQ(controller.Depth(record, 1), -1);
  EXPECT_LE(rounds, 40);
  int started = 0;
  for (int i = 0; i < 64; ++i) {
    if (!controller.Starts()) continue;
    ++started;
    DraftRecord other;
    for (int r = 0; r < 8; ++r) controller.ObserveRound(other, 1, 0);
  }
  EXPECT_GE(started, 1) << "what changes is noticed";
  EXPECT_LE(started, 8);
}

TEST(DraftControllerTest, DraftsLessWhereRowsAreDear) {
  DraftController cheap({.mode = DraftMode::kAuto, .num_drafts = 5});
  DraftController dear({.mode = DraftMode::kAuto, .num_drafts = 5});
  TeachCosts(cheap, 0.05);
  TeachCosts(dear, 6);
  DraftRecord a, b;
  for (int i = 0; i < 100; ++i) {  // four in five are right
    cheap.ObserveRound(a, 5, i % 5);
    dear.ObserveRound(b, 5, i % 5);
  }
  EXPECT_GT(cheap.Depth(a, 1), dear.Depth(b, 1));
}

TEST(DraftControllerTest, FixedAndOffAreWhatTheySay) {
  DraftController fixed({.mode = DraftMode::kFixed, .num_drafts = 3});
  EXPECT_TRUE(fixed.Starts());
  DraftRecord record;
  for (int i = 0; i < 50; ++i) fixed.ObserveRound(record, 3, 0);
  EXPECT_EQ(fixed.Depth(record, 8), 3);
  EXPECT_FALSE(DraftController({.mode = DraftMode::kOff}).Starts());
}

}  // namespace
}  // namespace quern::engine
