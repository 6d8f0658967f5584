#include "quern/backend/math.h"

#include <cmath>
#include <limits>

#include "quern/backend/ops/op_testing.h"

namespace quern::backend {
namespace {

int64_t UlpsApart(float a, float b) {
  return std::abs(static_cast<int64_t>(std::bit_cast<int32_t>(a)) - std::bit_cast<int32_t>(b));
}

TEST(ExpTest, WithinTwoUlpOverItsRange) {
  int64_t worst = 0;
  float where = 0;
  const auto check = [&](float x) {
    const int64_t ulps = UlpsApart(Exp(x), static_cast<float>(std::exp(static_cast<double>(x))));
    if (ulps > worst) worst = ulps, where = x;
  };
  for (float x = kExpLow; x <= kExpHigh; x += 1.0f / 4096) check(x);
  for (float x = 1.0f; x > 1e-38f; x *= 0.97f) check(x), check(-x);
  Rng rng(1);
  for (int i = 0; i < 1000000; ++i)
    check(static_cast<float>(std::uniform_real_distribution<>(kExpLow, kExpHigh)(rng)));
  EXPECT_LE(worst, 2) << "at " << where;
  EXPECT_EQ(Exp(0.0f), 1.0f);
  EXPECT_EQ(Exp(-0.0f), 1.0f);
}

TEST(ExpTest, SaturatesAndKeepsNan) {
  EXPECT_EQ(Exp(-INFINITY), 0.0f);
  EXPECT_EQ(Exp(std::nextafter(kExpLow, -INFINITY)), 0.0f);
  EXPECT_GT(Exp(kExpLow), 0.0f);
  EXPECT_EQ(Exp(INFINITY), Exp(kExpHigh));
  EXPECT_EQ(Exp(std::numeric_limits<float>::max()), Exp(kExpHigh));
  EXPECT_TRUE(std::isfinite(Exp(kExpHigh)));
  EXPECT_TRUE(std::isnan(Exp(NAN)));
  EXPECT_TRUE(std::isnan(Exp(-NAN)));
}

// Over a million neighbours at each end and around 0 the result never falls.
TEST(ExpTest, IsMonotoneAtTheEndsAndAroundZero) {
  for (float start : {std::nextafter(kExpLow, -INFINITY), -1e-3f, kExpHigh - 1.0f}) {
    float last = Exp(start), x = start;
    for (int i = 0; i < 300000; ++i) {
      x = std::nextafter(x, INFINITY);
      const float y = Exp(x);
      ASSERT_GE(y, last) << x;
      last = y;
    }
  }
}

TEST(SigmoidTest, EndsAndMiddle) {
  EXPECT_EQ(Sigmoid(0.0f), 0.5f);
  EXPECT_EQ(Sigmoid(INFINITY), 1.0f);
  EXPECT_GT(Sigmoid(-80.0f), 0.0f);
  EXPECT_LT(Sigmoid(-INFINITY), 1e-38f);
  EXPECT_EQ(Silu(0.0f), 0.0f);
  EXPECT_NEAR(Silu(2.0f), 2.0 / (1.0 + std::exp(-2.0)), 1e-6);
}

// The lanes of every target give the scalar's bits: SwiGlu with up = 1 shows silu(gate) itself.
TEST(ExpTest, VectorLanesEqualTheScalar) {
  Rng rng(2);
  const int64_t n = 1 << 16;
  TestTensor gate_up(Dtype::kF32, {1, 2 * n}), blank(Dtype::kF32, {1, n});
  for (int64_t i = 0; i < n; ++i) {
    // A third each: any bit pattern (NaN, infinities, denormals), the whole range, near the ends.
    const float end = i % 2 == 0 ? kExpLow : kExpHigh;
    const float values[3] = {std::bit_cast<float>(static_cast<uint32_t>(rng())), Normal(rng, 40.0f),
                             -end + Normal(rng, 1e-4f)};
    gate_up.Set(i, values[i % 3]);
    gate_up.Set(n + i, 1.0f);
  }
  const float special[] = {0.0f,     -0.0f,   INFINITY, -INFINITY, NAN,       -NAN,
                           1e-45f,   -1e-45f, 1e-39f,   -kExpLow,  -kExpHigh, kExpLow,
                           kExpHigh, 3e38f,   -3e38f,   87.5f,     -87.5f};
  for (size_t i = 0; i < std::size(special); ++i) gate_up.Set(static_cast<int64_t>(i), special[i]);
  ForEachCpu([&](Backend& be) {
    TestTensor y = blank;
    ASSERT_TRUE(be.SwiGlu({gate_up, y}).ok());
    for (int64_t i = 0; i < n; ++i) {
      const float want = Silu(gate_up.Get(i)) * 1.0f, got = y.Get(i);
      ASSERT_TRUE(SameFloatBits(got, want) || (got != got && want != want))
          << gate_up.Get(i) << ": got " << got << ", want " << want;
    }
  });
}

// Conversions to bf16 and back, with an op that only converts.
TEST(Bf16Test, VectorConversionEqualsTheScalar) {
  Rng rng(3);
  const int64_t n = 1 << 16;
  TestTensor x(Dtype::kF32, {1, n}), blank(Dtype::kBf16, {1, n});
  for (int64_t i = 0; i < n; ++i) x.Set(i, std::bit_cast<float>(static_cast<uint32_t>(rng())));
  for (int64_t i = 0; i < n; ++i) blank.Set(i, 0.0f);
  ForEachCpu([&](Backend& be) {
    TestTensor y = blank;
    ASSERT_TRUE(be.Add({x, y}).ok());  // 0 + x, rounded
    for (int64_t i = 0; i < n; ++i) {
      const float want = host::RoundTo(Dtype::kBf16, 0.0f + x.Get(i)), got = y.Get(i);
      ASSERT_TRUE(SameFloatBits(got, want) || (got != got && want != want)) << x.Get(i);
    }
  });
}

TEST(ReduceLanesTest, AddsPairwise) {
  float lanes[kSumLanes];
  for (int i = 0; i < kSumLanes; ++i) lanes[i] = static_cast<float>(i + 1);
  EXPECT_EQ(ReduceLanes(lanes), 136.0f);
  float big[kSumLanes] = {1e8f, 1.0f, 0, 0, 0, 0, 0, 0, -1e8f};  // 0 and 8 meet first
  EXPECT_EQ(ReduceLanes(big), 1.0f);
}

}  // namespace
}  // namespace quern::backend
