#include "quern/engine/scheduling/step_costs.h"

#include <gtest/gtest.h>

namespace quern::engine {
namespace {

TEST(StepCostsTest, FillsStepsWhenNobodyWaits) {
  EXPECT_EQ(StepCosts().PrefillRows(/*others_decode=*/false, 512), 512);
}

TEST(StepCostsTest, BesideDecodingAStepStaysWithinItsStretch) {
  StepCosts costs;
  // Decoding takes 10 ms, a prompt row 0.5 ms.
  for (int i = 0; i < 50; ++i) {
    costs.Observe(4, 0, 0.010);
    costs.Observe(4, 20, 0.020);
    costs.Observe(0, 512, 0.256);
  }
  const int64_t rows = costs.PrefillRows(true, 512);
  EXPECT_NEAR(static_cast<double>(rows), 30, 2);
  EXPECT_LE(0.010 + 0.0005 * static_cast<double>(rows), 0.010 * StepCosts::kMaxStretch + 1e-9);
}

TEST(StepCostsTest, APromptAlwaysGoesOn) {
  StepCosts costs;
  for (int i = 0; i < 50; ++i) {
    costs.Observe(1, 0, 0.001);
    costs.Observe(1, 8, 1.0);
  }
  EXPECT_EQ(costs.PrefillRows(true, 512), StepCosts::kMinPrefillRows);
  EXPECT_EQ(costs.PrefillRows(true, 4), 4);
}

}  // namespace
}  // namespace quern::engine
