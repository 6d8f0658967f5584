#include "quern/backend/ops/norm.h"

#include <cmath>

#include "quern/backend/ops/op_testing.h"

namespace quern::backend {
namespace {

constexpr int64_t kWidths[] = {1, 7, 15, 16, 17, 31, 63, 64, 65, 100, 257};
constexpr Dtype kTypes[] = {Dtype::kF32, Dtype::kBf16};

TestTensor Vector(int64_t n, Rng& rng) { return TestTensor(Dtype::kF32, {n}).Fill(rng); }

TEST(RmsNormTest, EqualsTheReferenceBitForBit) {
  Rng rng(1);
  for (int64_t n : kWidths) {
    for (Dtype x_type : kTypes) {
      for (Dtype y_type : kTypes) {
        SCOPED_TRACE(fmt::format("n {} {} {}", n, DtypeName(x_type), DtypeName(y_type)));
        TestTensor x(x_type, {5, n}, 3), weight = Vector(n, rng), want(y_type, {5, n}, 2);
        x.Fill(rng, 3.0f);
        const TestTensor blank = want;
        ASSERT_TRUE(Ref().RmsNorm({x, weight, 1e-5f, want}).ok());
        ForEachCpu([&](Backend& be) {
          TestTensor got = blank;
          ASSERT_TRUE(be.RmsNorm({x, weight, 1e-5f, got}).ok());
          EXPECT_TRUE(SameBits(got, want));
          if (x_type == y_type) {  // in place
            TestTensor in_place = x, other = x;
            ASSERT_TRUE(be.RmsNorm({in_place, weight, 1e-5f, in_place}).ok());
            ASSERT_TRUE(Ref().RmsNorm({other, weight, 1e-5f, other}).ok());
            EXPECT_TRUE(SameBits(in_place, other));
          }
        });
      }
    }
  }
}

TEST(RmsNormTest, IsTheRootMeanSquareFormula) {
  Rng rng(2);
  const int64_t n = 100;
  TestTensor x(Dtype::kF32, {1, n}), weight = Vector(n, rng), y(Dtype::kF32, {1, n});
  x.Fill(rng);
  ASSERT_TRUE(Cpu(1).RmsNorm({x, weight, 0.25f, y}).ok());
  double squares = 0;
  for (float v : x.Floats()) squares += static_cast<double>(v) * v;
  for (int64_t i = 0; i < n; ++i) {
    const double want = x.Get(i) / std::sqrt(squares / n + 0.25) * weight.Get(i);
    EXPECT_NEAR(y.Get(i), want, 1e-6 * std::fabs(want));
  }
}

TEST(RmsNormTest, ZerosStayZerosAndNanSpreads) {
  TestTensor x(Dtype::kBf16, {2, 20}), weight(Dtype::kF32, {20}), y(Dtype::kBf16, {2, 20});
  for (int64_t i = 0; i < 20; ++i) weight.Set(i, 1.0f), x.Set(i, 0.0f), x.Set(20 + i, NAN);
  for (Backend* be : {&Ref(), &Cpu(2)}) {
    ASSERT_TRUE(be->RmsNorm({x, weight, 1e-6f, y}).ok());
    for (int64_t i = 0; i < 20; ++i) {
      EXPECT_EQ(y.Get(i), 0.0f);
      EXPECT_TRUE(std::isnan(y.Get(20 + i)));
    }
  }
}

TEST(LayerNormTest, EqualsTheReferenceBitForBit) {
  Rng rng(3);
  for (int64_t n : kWidths) {
    for (Dtype x_type : kTypes) {
      for (Dtype y_type : kTypes) {
        SCOPED_TRACE(fmt::format("n {} {} {}", n, DtypeName(x_type), DtypeName(y_type)));
        TestTensor x(x_type, {35, n}, 3), weight = Vector(n, rng), bias = Vector(n, rng);
        TestTensor want(y_type, {35, n}, 2);
        x.Fill(rng, 3.0f);
        const TestTensor blank = want;
        ASSERT_TRUE(Ref().LayerNorm({x, weight, bias, 1e-6f, want}).ok());
        ForEachCpu([&](Backend& be) {
          TestTensor got = blank;
          ASSERT_TRUE(be.LayerNorm({x, weight, bias, 1e-6f, got}).ok());
          EXPECT_TRUE(SameBits(got, want));
        });
      }
    }
  }
}

TEST(LayerNormTest, IsTheMeanAndVarianceFormula) {
  Rng rng(4);
  const int64_t n = 128;
  TestTensor x(Dtype::kF32, {1, n}), weight = Vector(n, rng), bias = Vector(n, rng);
  TestTensor y(Dtype::kF32, {1, n});
  x.Fill(rng, 2.0f);
  ASSERT_TRUE(Cpu(1).LayerNorm({x, weight, bias, 1e-6f, y}).ok());
  double mean = 0, variance = 0;
  for (float v : x.Floats()) mean += v / static_cast<double>(n);
  for (float v : x.Floats()) variance += (v - mean) * (v - mean) / static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) {
    const double want =
        (x.Get(i) - mean) / std::sqrt(variance + 1e-6) * weight.Get(i) + bias.Get(i);
    EXPECT_NEAR(y.Get(i), want, 4e-6);
  }
}

TEST(AddTest, EqualsTheReferenceBitForBit) {
  Rng rng(5);
  for (int64_t n : kWidths) {
    for (Dtype x_type : kTypes) {
      for (Dtype y_type : kTypes) {
        TestTensor x(x_type, {4, n}, 1), want(y_type, {4, n}, 2);
        x.Fill(rng), want.Fill(rng);
        const TestTensor before = want;
        ASSERT_TRUE(Ref().Add({x, want}).ok());
        ForEachCpu([&](Backend& be) {
          TestTensor got = before;
          ASSERT_TRUE(be.Add({x, got}).ok());
          EXPECT_TRUE(SameBits(got, want));
          EXPECT_EQ(got.Get(0), host::RoundTo(y_type, before.Get(0) + x.Get(0)));
        });
      }
    }
  }
}

}  // namespace
}  // namespace quern::backend
