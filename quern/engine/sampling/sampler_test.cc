#include "quern/engine/sampling/sampler.h"

#include <gtest/gtest.h>

#include <cmath>

namespace quern::engine {
namespace {

int32_t Draw(Sampler& sampler, std::vector<float> logits, int64_t position = 0) {
  return *sampler.Sample(logits, position);
}

TEST(Sampler, GreedyTakesTheLargestAndTheLowerIdOnTies) {
  Sampler s({.temperature = 0}, {}, 4);
  EXPECT_EQ(Draw(s, {1, 3, 3, 2}), 1);
  EXPECT_EQ(Draw(s, {NAN, -1, -INFINITY, -2}), 1);
}

TEST(Sampler, PaddingRowsAreNeverDrawn) {
  Sampler greedy({.temperature = 0}, {}, 2);
  EXPECT_EQ(Draw(greedy, {1, 2, 99}), 1);
  Sampler random({.seed = 7}, {}, 2);
  for (int64_t p = 0; p < 200; ++p) EXPECT_LT(Draw(random, {0, 0, 50}, p), 2);
}

TEST(Sampler, NoFiniteLogitIsAnError) {
  for (float temperature : {0.0f, 1.0f}) {
    Sampler s({.temperature = temperature}, {}, 2);
    std::vector<float> logits = {NAN, NAN};
    const Result<int32_t> r = s.Sample(logits, 5);
    ASSERT_FALSE(r.ok());
    EXPECT_NE(r.status().message().find("position 5"), std::string::npos);
  }
}

TEST(Sampler, DrawDependsOnSeedAndPositionOnly) {
  const std::vector<float> logits = {0, 0.5f, 1, 0.2f};
  Sampler a({.seed = 42}, {}, 4), b({.seed = 42}, {}, 4), c({.seed = 43}, {}, 4);
  std::vector<int32_t> forward, backward, other;
  for (int64_t p = 0; p < 100; ++p) forward.push_back(Draw(a, logits, p));
  for (int64_t p = 99; p >= 0; --p) backward.insert(backward.begin(), Draw(b, logits, p));
  for (int64_t p = 0; p < 100; ++p) other.push_back(Draw(c, logits, p));
  EXPECT_EQ(forward, backward);
  EXPECT_NE(forward, other);
}

TEST(Sampler, FrequenciesMatchTheDistribution) {
  // softmax of logits / 2: 1 : e^0.5 : e
  Sampler s({.temperature = 2, .seed = 1}, {}, 3);
  int hits[3] = {};
  const int n = 20000;
  for (int64_t p = 0; p < n; ++p) ++hits[Draw(s, {0, 1, 2}, p)];
  const double total = 1 + std::exp(0.5) + std::exp(1.0);
  for (int i = 0; i < 3; ++i) {
    const double want = std::exp(0.5 * i) / total;
    EXPECT_NEAR(hits[i] / static_cast<double>(n), want, 4 * std::sqrt(want / n)) << i;
  }
}

TEST(Sampler, PenaltiesAndBias) {
  const std::vector<int32_t> prompt = {0};
  // repetition: positive logits divided, negative multiplied; prompt tokens count.
  Sampler repetition({.temperature = 0, .repetition_penalty = 2}, prompt, 2);
  EXPECT_EQ(Draw(repetition, {1.9f, 1}), 1);
  EXPECT_EQ(Draw(repetition, {1.9f, 1.8f}), 0) << "token 1 has been generated now";
  // presence and frequency look at generated tokens only.
  Sampler presence({.temperature = 0, .presence_penalty = 1}, prompt, 2);
  EXPECT_EQ(Draw(presence, {1.5f, 1}), 0);
  EXPECT_EQ(Draw(presence, {1.5f, 1}), 1);
  Sampler frequency({.temperature = 0, .frequency_penalty = 0.4f}, prompt, 2);
  EXPECT_EQ(Draw(frequency, {2, 1.1f}), 0);
  EXPECT_EQ(Draw(frequency, {2, 1.1f}), 0);
  EXPECT_EQ(Draw(frequency, {2, 1.1f}), 0);
  EXPECT_EQ(Draw(frequency, {2, 1.1f}), 1);
  Sampler bias({.temperature = 0, .logit_bias = {{0, -100.0f}}}, prompt, 2);
  EXPECT_EQ(Draw(bias, {5, 1}), 1);
}

TEST(Logprobs, AreLogSoftmaxBestFirst) {
  const std::vector<float> logits = {0, 1, 1, -2, 100};
  const Logprobs r = ComputeLogprobs(logits, 4, 3, 3);
  const double total = std::log(1 + 2 * std::exp(1.0) + std::exp(-2.0));
  EXPECT_NEAR(r.token.logprob, -2 - total, 1e-6);
  ASSERT_EQ(r.top.size(), 3u);
  EXPECT_EQ(r.top[0].token, 1);
  EXPECT_EQ(r.top[1].token, 2);
  EXPECT_EQ(r.top[2].token, 0);
  EXPECT_NEAR(r.top[0].logprob, 1 - total, 1e-6);
}

}  // namespace
}  // namespace quern::engine
