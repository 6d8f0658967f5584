#include "quern/engine/sampling/filters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace quern::engine {
namespace {

// Probabilities 0.4, 0.3, 0.2, 0.1 at ids 3, 1, 0, 2.
const std::vector<float> kLogits = {std::log(0.2f), std::log(0.3f), std::log(0.1f), std::log(0.4f)};

std::vector<int32_t> Kept(std::vector<float> logits, SamplingParams params) {
  std::vector<int32_t> ids;
  for (const Candidate& c : FilterCandidates(logits, params)) ids.push_back(c.token);
  std::sort(ids.begin(), ids.end());
  return ids;
}

using Ids = std::vector<int32_t>;

TEST(Filters, OffKeepsEverythingFinite) {
  EXPECT_EQ(Kept(kLogits, {}), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(Kept({0, -INFINITY, NAN, 1}, {}), (Ids{0, 3}));
  EXPECT_TRUE(Kept({NAN, -INFINITY}, {}).empty());
}

TEST(Filters, TopK) {
  EXPECT_EQ(Kept(kLogits, {.top_k = 2}), (Ids{1, 3}));
  EXPECT_EQ(Kept(kLogits, {.top_k = 100}), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(Kept({1, 1, 1, 1}, {.top_k = 2}), (Ids{0, 1})) << "ties go to the lower id";
}

TEST(Filters, TopPIsTheShortestPrefixThatReachesIt) {
  EXPECT_EQ(Kept(kLogits, {.top_p = 0.39f}), (Ids{3}));
  EXPECT_EQ(Kept(kLogits, {.top_p = 0.41f}), (Ids{1, 3}));
  EXPECT_EQ(Kept(kLogits, {.top_p = 0.71f}), (Ids{0, 1, 3}));
  EXPECT_EQ(Kept(kLogits, {.top_p = 1e-6f}), (Ids{3})) << "never empty";
}

TEST(Filters, TopPSpeaksOfWhatTopKLeft) {
  // Of 0.4 and 0.3, the first has 0.571.
  EXPECT_EQ(Kept(kLogits, {.top_k = 2, .top_p = 0.57f}), (Ids{3}));
  EXPECT_EQ(Kept(kLogits, {.top_k = 2, .top_p = 0.58f}), (Ids{1, 3}));
}

TEST(Filters, MinPIsRelativeToTheLargest) {
  EXPECT_EQ(Kept(kLogits, {.min_p = 0.49f}), (Ids{0, 1, 3}));
  EXPECT_EQ(Kept(kLogits, {.min_p = 0.51f}), (Ids{1, 3}));
  EXPECT_EQ(Kept(kLogits, {.min_p = 1.0f}), (Ids{3}));
}

TEST(Filters, TemperatureComesFirst) {
  // Squared and renormalised: 0.533, 0.3, 0.133, 0.033.
  EXPECT_EQ(Kept(kLogits, {.temperature = 0.5f, .top_p = 0.53f}), (Ids{3}));
  EXPECT_EQ(Kept(kLogits, {.temperature = 0.5f, .top_p = 0.54f}), (Ids{1, 3}));
}

TEST(Filters, LargeVocabularyTopPEqualsAFullSort) {
  std::vector<float> logits(20000);
  for (size_t i = 0; i < logits.size(); ++i)
    logits[i] = std::sin(static_cast<float>(i) * 12.9898f) * 4;
  for (float top_p : {0.01f, 0.3f, 0.9f, 0.999f}) {
    std::vector<std::pair<double, int32_t>> sorted;
    double total = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      sorted.emplace_back(-std::exp(static_cast<double>(logits[i])), static_cast<int32_t>(i));
      total += std::exp(static_cast<double>(logits[i]));
    }
    std::sort(sorted.begin(), sorted.end());
    Ids want;
    double sum = 0;
    for (const auto& [weight, id] : sorted) {
      want.push_back(id);
      if ((sum -= weight) >= static_cast<double>(top_p) * total) break;
    }
    std::sort(want.begin(), want.end());
    EXPECT_EQ(Kept(logits, {.top_p = top_p}), want) << top_p;
  }
}

}  // namespace
}  // namespace quern::engine
