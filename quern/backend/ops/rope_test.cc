#include "quern/backend/ops/rope.h"

#include <cmath>

#include "quern/backend/ops/op_testing.h"

namespace quern::backend {
namespace {

constexpr Dtype kTypes[] = {Dtype::kF32, Dtype::kBf16};

TestTensor Positions(const std::vector<int32_t>& values) {
  return TestTensor(Dtype::kI32, {static_cast<int64_t>(values.size())}).Ints(values);
}
const std::vector<int32_t> kPositions = {0, 1, 2, 63, 64, 4095, 1000000, 17, 5};

TEST(RopeTableTest, EqualsTheReferenceAndTheFormula) {
  std::vector<int32_t> values = kPositions;  // more than one thread's share
  for (int32_t p = 0; p < 140; ++p) values.push_back(p * 31);
  TestTensor positions = Positions(values);
  const int64_t tokens = positions.size();
  for (int64_t dim : {2, 8, 30, 64, 128}) {
    for (double theta : {10000.0, 8e6}) {
      TestTensor want(Dtype::kF32, {tokens, 2, dim / 2}), blank = want;
      ASSERT_TRUE(Ref().RopeTable({positions, theta, dim, want}).ok());
      ForEachCpu([&](Backend& be) {
        TestTensor got = blank;
        ASSERT_TRUE(be.RopeTable({positions, theta, dim, got}).ok());
        EXPECT_TRUE(SameBits(got, want));
      });
      for (int64_t t = 0; t < tokens; ++t) {
        for (int64_t i = 0; i < dim / 2; ++i) {
          const double p = values[static_cast<size_t>(t)];
          const double angle =
              p * std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
          // The frequency is rounded to f32 (steps of 2^-24 and a pow of a rounded exponent).
          const double bound = 1e-6 + p * 2e-7 * (1 + std::log(theta));
          EXPECT_NEAR(want.Get(t * dim + i), std::cos(angle), bound) << p << " " << i;
          EXPECT_NEAR(want.Get(t * dim + dim / 2 + i), std::sin(angle), bound) << p << " " << i;
        }
      }
    }
  }
}

TEST(RopeTest, EqualsTheReferenceBitForBit) {
  Rng rng(1);
  TestTensor positions = Positions(kPositions);
  const int64_t tokens = positions.size();
  for (int64_t dim : {2, 8, 30, 64, 66}) {
    TestTensor table(Dtype::kF32, {tokens, 2, dim / 2});
    ASSERT_TRUE(Ref().RopeTable({positions, 10000.0, dim, table}).ok());
    for (int64_t heads : {1, 3, 17}) {
      for (Dtype x_type : kTypes) {
        for (Dtype y_type : kTypes) {
          for (bool interleave : {false, true}) {
            SCOPED_TRACE(fmt::format("dim {} heads {} {} {} interleave {}", dim, heads,
                                     DtypeName(x_type), DtypeName(y_type), interleave));
            // The rotated part is the end of a wider head, as in the model's q.
            TestTensor x(x_type, {tokens, heads, dim + 5}, 2),
                want(y_type, {tokens, heads, dim + 3});
            x.Fill(rng);
            const TestTensor blank = want;
            const Tensor in = x.view().Columns(5, dim);
            ASSERT_TRUE(Ref().Rope({in, table, interleave, want.view().Columns(1, dim)}).ok());
            ForEachCpu([&](Backend& be) {
              TestTensor got = blank;
              ASSERT_TRUE(be.Rope({in, table, interleave, got.view().Columns(1, dim)}).ok());
              EXPECT_TRUE(SameBits(got, want));
            });
            if (x_type != y_type) continue;
            TestTensor in_place = x;
            const Tensor both = in_place.view().Columns(5, dim);
            ASSERT_TRUE(Cpu(2).Rope({both, table, interleave, both}).ok());
            for (int64_t i = 0; i < tokens * heads; ++i) {
              for (int64_t c = 0; c < dim; ++c) {
                EXPECT_TRUE(SameFloatBits(in_place.Get(i * (dim + 5) + 5 + c),
                                          want.Get(i * (dim + 3) + 1 + c)));
              }
            }
          }
        }
      }
    }
  }
}

// Each pair turns by position * theta^(-2i/dim); pairs as the two conventions define them.
TEST(RopeTest, RotatesPairsByTheAngle) {
  Rng rng(2);
  const int64_t dim = 16;
  TestTensor positions = Positions({3, 11});
  TestTensor table(Dtype::kF32, {2, 2, dim / 2}), x(Dtype::kF32, {2, 2, dim});
  x.Fill(rng);
  ASSERT_TRUE(Cpu(1).RopeTable({positions, 10000.0, dim, table}).ok());
  for (bool interleave : {false, true}) {
    TestTensor y(Dtype::kF32, {2, 2, dim});
    ASSERT_TRUE(Cpu(1).Rope({x, table, interleave, y}).ok());
    for (int64_t row = 0; row < 4; ++row) {
      for (int64_t i = 0; i < dim / 2; ++i) {
        const double angle =
            positions.Int(row / 2) * std::pow(10000.0, -2.0 * static_cast<double>(i) / dim);
        const int64_t first = row * dim + (interleave ? 2 * i : i);
        const int64_t second = row * dim + (interleave ? 2 * i + 1 : i + dim / 2);
        EXPECT_NEAR(y.Get(first), x.Get(first) * std::cos(angle) - x.Get(second) * std::sin(angle),
                    1e-5);
        EXPECT_NEAR(y.Get(second), x.Get(second) * std::cos(angle) + x.Get(first) * std::sin(angle),
                    1e-5);
      }
    }
  }
}

}  // namespace
}  // namespace quern::backend
