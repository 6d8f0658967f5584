// Products with int8 activations, and weights made int8 or fp8 at load: cpu against ref to the bit,
// and ref against exact arithmetic.
#include <bit>
#include <cmath>
#include <limits>

#include "quern/backend/ops/linear.h"
#include "quern/backend/ops/load.h"
#include "quern/backend/ops/op_testing.h"

namespace quern::backend {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::unique_ptr<LinearWeights> Load(Backend& be, std::vector<StoredMatrix> parts, LoadAs as) {
  auto w = be.LoadLinear(parts, as);
  EXPECT_TRUE(w.ok()) << w.status().ToString();
  return std::move(w).value();
}

// All CPU targets and thread counts give the reference's bits.
void ExpectMatches(const std::vector<StoredMatrix>& parts, LoadAs as, TestTensor x, Dtype y_type) {
  const auto ref_w = Load(Ref(), parts, as);
  const auto cpu_w = Load(Cpu(1), parts, as);
  TestTensor want(y_type, {x.view().dim(0), ref_w->rows()}, /*pad=*/3), blank = want;
  ASSERT_TRUE(Ref().Linear({x, *ref_w, want}).ok());
  ForEachCpu([&](Backend& be) {
    TestTensor got = blank;
    ASSERT_TRUE(be.Linear({x, *cpu_w, got}).ok());
    EXPECT_TRUE(SameBits(got, want));
  });
}

constexpr int64_t kTokens[] = {1, 2, 3, 5, 8, 16, 17, 64, 100};
struct Shape {
  int64_t n, k;
};
// Rows and columns off, at and past multiples of a panel, a group and a block of four groups.
constexpr Shape kShapes[] = {{1, 1},    {7, 31},   {16, 32},  {17, 100},
                             {40, 128}, {65, 165}, {100, 300}};

TEST(Int8Linear, EqualsTheReferenceBitForBit) {
  Rng rng(1);
  for (WeightFormat format : {WeightFormat::kMxfp4, WeightFormat::kBf16, WeightFormat::kF32,
                              WeightFormat::kFp8Block, WeightFormat::kNvfp4}) {
    for (const Shape& s : kShapes) {
      const int64_t k = RoundCols(format, s.k);
      const StoredCase w = MakeStored(format, s.n, k, rng, {.block_rows = 16, .block_cols = 24});
      for (int64_t tokens : kTokens) {
        if (tokens > 20 && s.n * k > 12000) continue;  // the reference is slow
        SCOPED_TRACE(
            fmt::format("{} tokens {} n {} k {}", WeightFormatName(format), tokens, s.n, k));
        TestTensor x(tokens % 2 == 0 ? Dtype::kF32 : Dtype::kBf16, {tokens, k}, /*pad=*/5);
        x.Fill(rng);
        ExpectMatches({w.matrix}, LoadAs::kInt8, x, tokens % 3 == 0 ? Dtype::kBf16 : Dtype::kF32);
      }
    }
  }
}

TEST(Fp8Linear, EqualsTheReferenceBitForBit) {
  Rng rng(2);
  for (WeightFormat format :
       {WeightFormat::kBf16, WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kFp8Channel}) {
    for (const Shape& s : {Shape{17, 100}, Shape{40, 300}}) {
      const StoredCase w = MakeStored(format, s.n, s.k, rng);
      for (int64_t tokens : {1, 5, 17}) {
        TestTensor x(Dtype::kBf16, {tokens, s.k});
        x.Fill(rng);
        ExpectMatches({w.matrix}, LoadAs::kFp8, x, Dtype::kF32);
      }
    }
  }
}

TEST(Int8Linear, PartsOfSeveralComputeFormatsAreStacked) {
  Rng rng(3);
  const StoredCase a = MakeStored(WeightFormat::kMxfp4, 33, 160, rng);
  const StoredCase b = MakeStored(WeightFormat::kNvfp4, 20, 160, rng);  // stays as stored
  const StoredCase c = MakeStored(WeightFormat::kBf16, 70, 160, rng);
  for (int64_t tokens : {1, 14, 30}) {
    TestTensor x(Dtype::kBf16, {tokens, 160});
    x.Fill(rng);
    ExpectMatches({a.matrix, b.matrix, c.matrix}, LoadAs::kInt8, x, Dtype::kBf16);
  }
}

// The largest sums there are: every code and every activation at its limit, signs equal.
TEST(Int8Linear, LargestSumsDoNotOverflow) {
  for (WeightFormat format : {WeightFormat::kMxfp4, WeightFormat::kF32}) {
    const bool fp4 = format == WeightFormat::kMxfp4;
    for (int sign : {1, -1}) {
      Rng rng(4);
      StoredCase w = MakeStored(format, 16, 128, rng);
      for (int64_t r = 0; r < 16; ++r) {
        std::byte* row = w.data.data() + 1 + r * w.matrix.row_bytes;
        const float value = sign > 0 ? 1.0f : -1.0f;
        for (int64_t k = 0; k < 128; ++k) {
          if (fp4) row[k / 2] = std::byte{static_cast<uint8_t>(sign > 0 ? 0x77 : 0xFF)};
          if (!fp4) std::memcpy(row + 4 * k, &value, 4);
        }
      }
      for (float x_value : {1.0f, -1.0f}) {
        TestTensor x(Dtype::kF32, {13, 128});
        for (int64_t i = 0; i < x.size(); ++i) x.Set(i, x_value);
        ExpectMatches({w.matrix}, LoadAs::kInt8, x, Dtype::kF32);
      }
    }
  }
}

// Scale codes 0 (subnormal), 254 and 255 (NaN); groups of zeros; activations that are subnormal,
// huge or not finite.
TEST(Int8Linear, ExtremeScalesAndActivations) {
  Rng rng(5);
  const int64_t n = 50, k = 160;
  const float least = std::numeric_limits<float>::denorm_min();
  const float huge = std::numeric_limits<float>::max();
  for (WeightFormat format : {WeightFormat::kMxfp4, WeightFormat::kF32}) {
    StoredCase w = MakeStored(format, n, k, rng, {.nan_codes = true});
    for (int64_t r = 0; r < n && format == WeightFormat::kF32; ++r) {
      std::byte* row = w.data.data() + 1 + r * w.matrix.row_bytes;
      const float values[] = {0.0f, least, 1e-38f, huge, r % 7 == 0 ? kInf : 1.0f};
      for (int64_t i = 0; i < k; ++i) std::memcpy(row + 4 * i, &values[i / 32], 4);
    }
    for (float size : {0.0f, least, 100 * least, 1e-38f, 1e30f, huge}) {
      SCOPED_TRACE(fmt::format("{} x of {}", WeightFormatName(format), size));
      TestTensor x(Dtype::kF32, {15, k});
      for (int64_t i = 0; i < x.size(); ++i) x.Set(i, i % 3 == 0 ? -size : i % 3 == 1 ? 0 : size);
      ExpectMatches({w.matrix}, LoadAs::kInt8, x, Dtype::kF32);
      x.Set(5 * k + 33, kInf);
      x.Set(7 * k + 2, -kInf);
      x.Set(9 * k + 159, std::nanf(""));
      ExpectMatches({w.matrix}, LoadAs::kInt8, x, Dtype::kF32);
    }
  }
}

TEST(Int8Linear, ANonFiniteActivationSpoilsItsRowOnly) {
  Rng rng(6);
  const StoredCase w = MakeStored(WeightFormat::kBf16, 20, 64, rng);
  TestTensor x(Dtype::kBf16, {3, 64}), y(Dtype::kF32, {3, 20});
  x.Fill(rng);
  x.Set(64 + 40, kInf);
  for (Backend* be : {&Ref(), &Cpu(2)}) {
    ASSERT_TRUE(be->Linear({x, *Load(*be, {w.matrix}, LoadAs::kInt8), y}).ok());
    for (int64_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y.Get(i)), i / 20 == 1) << i;
  }
}

TEST(Int8Linear, ARowHasTheSameBitsAloneAndInABatch) {
  Rng rng(7);
  for (WeightFormat format : {WeightFormat::kMxfp4, WeightFormat::kBf16}) {
    const int64_t tokens = 66, n = 72, k = 320;
    const StoredCase w = MakeStored(format, n, k, rng);
    const auto weights = Load(Cpu(1), {w.matrix}, LoadAs::kInt8);
    TestTensor x(Dtype::kBf16, {tokens, k}), blank(Dtype::kF32, {tokens, n});
    x.Fill(rng);
    TestTensor whole = blank;
    ASSERT_TRUE(Cpu(1).Linear({x, *weights, whole}).ok());
    ForEachCpu([&](Backend& be) {
      TestTensor parts = blank;  // chunks of 1, 2, 3, ... rows
      for (int64_t begin = 0, size = 1; begin < tokens; begin += size++) {
        const int64_t rows = std::min(size, tokens - begin);
        ASSERT_TRUE(
            be.Linear({x.view().Rows(begin, rows), *weights, parts.view().Rows(begin, rows)}).ok());
      }
      EXPECT_TRUE(SameBits(parts, whole));
    });
  }
}

// Against double arithmetic with the decoded weights, the bound of docs/formats/compute.md: per
// group xs / 2 for each activation, ws / 2 for each weight made int8, and k / 32 + 2 roundings.
TEST(Int8Linear, WithinTheBoundOfExactArithmetic) {
  Rng rng(8);
  for (WeightFormat format : {WeightFormat::kMxfp4, WeightFormat::kBf16, WeightFormat::kFp8Block}) {
    const int64_t tokens = 3, n = 40, k = 544;
    const StoredCase w = MakeStored(format, n, k, rng);
    TestTensor x(Dtype::kF32, {tokens, k}), y(Dtype::kF32, {tokens, n});
    x.Fill(rng);
    ASSERT_TRUE(Cpu(2).Linear({x, *Load(Cpu(2), {w.matrix}, LoadAs::kInt8), y}).ok());
    std::vector<float> row(static_cast<size_t>(k));
    double square_error = 0, square = 0;
    for (int64_t r = 0; r < n; ++r) {
      DecodeRow(w.matrix, r, row.data());
      for (int64_t t = 0; t < tokens; ++t) {
        double sum = 0, magnitude = 0, bound = 0;
        for (int64_t g = 0; g < k; g += 32) {
          double x_max = 0, w_max = 0;
          for (int64_t i = g; i < g + 32; ++i) {
            x_max = std::max<double>(x_max, std::fabs(x.Get(t * k + i)));
            w_max = std::max<double>(w_max, std::fabs(row[static_cast<size_t>(i)]));
          }
          const double dx = x_max / 254 * 1.001;
          const double dw = format == WeightFormat::kMxfp4 ? 0 : w_max / 254 * 1.005;
          for (int64_t i = g; i < g + 32; ++i) {
            const double wi = row[static_cast<size_t>(i)], xi = x.Get(t * k + i);
            sum += wi * xi;
            magnitude += std::fabs(wi * xi) + dx * std::fabs(wi) + dw * std::fabs(xi) + dx * dw;
            bound += dx * std::fabs(wi) + dw * std::fabs(xi) + dx * dw;
          }
        }
        bound += std::ldexp(static_cast<double>(k) / 32 + 2, -24) * magnitude;
        EXPECT_NEAR(y.Get(t * n + r), sum, bound) << WeightFormatName(format) << " row " << r;
        square_error += std::pow(y.Get(t * n + r) - sum, 2);
        square += sum * sum;
      }
    }
    // As measured for normal activations and weights: see docs/formats/compute.md.
    EXPECT_LT(std::sqrt(square_error / square), format == WeightFormat::kMxfp4 ? 0.0075 : 0.011);
    std::printf("  %s: relative RMS error of y %.2g\n",
                std::string(WeightFormatName(format)).c_str(), std::sqrt(square_error / square));
  }
}

TEST(LoadError, IsThatOfTheFormatAndNothingWhereWeightsStay) {
  Rng rng(9);
  const StoredCase w = MakeStored(WeightFormat::kF32, 64, 512, rng);  // normal
  const double int8 = LoadError(w.matrix, LoadAs::kInt8).value();
  const double fp8 = LoadError(w.matrix, LoadAs::kFp8).value();
  std::printf("  relative RMS error of normal weights: int8 %.2g, fp8 %.2g\n", int8, fp8);
  EXPECT_NEAR(int8, 0.0053, 0.0003);
  EXPECT_NEAR(fp8, 0.026, 0.002);
  EXPECT_FALSE(LoadError(w.matrix, LoadAs::kStored).has_value());
  const StoredCase fp4 = MakeStored(WeightFormat::kMxfp4, 16, 64, rng);
  EXPECT_FALSE(LoadError(fp4.matrix, LoadAs::kInt8).has_value());
}

TEST(ComputeFormat, IsChosenByStoredFormat) {
  using enum WeightFormat;
  EXPECT_EQ(ComputeFormatOf(kMxfp4, LoadAs::kInt8), ComputeFormat::kMxfp4Int8);
  EXPECT_EQ(ComputeFormatOf(kBf16, LoadAs::kInt8), ComputeFormat::kInt8);
  EXPECT_EQ(ComputeFormatOf(kFp8Block, LoadAs::kInt8), ComputeFormat::kInt8);
  EXPECT_EQ(ComputeFormatOf(kNvfp4, LoadAs::kInt8), ComputeFormat::kStored);
  EXPECT_EQ(ComputeFormatOf(kBf16, LoadAs::kFp8), ComputeFormat::kFp8);
  EXPECT_EQ(ComputeFormatOf(kFp8Block, LoadAs::kFp8), ComputeFormat::kStored);
  EXPECT_EQ(ComputeFormatOf(kMxfp4, LoadAs::kFp8), ComputeFormat::kStored);
  for (WeightFormat format : kAllFormats) {
    EXPECT_EQ(ComputeFormatOf(format, LoadAs::kStored), ComputeFormat::kStored);
  }
  EXPECT_EQ(Cpu(1).Choose(kMxfp4, LoadAs::kInt8).compute_format, "mxfp4 x int8");
  EXPECT_EQ(Cpu(1).Choose(kMxfp4, LoadAs::kInt8).bytes_per_weight * 8, 4.25);
  EXPECT_EQ(Cpu(1).Choose(kBf16, LoadAs::kInt8).compute_format, "bf16 as int8 x int8");
  EXPECT_EQ(Cpu(1).Choose(kBf16, LoadAs::kInt8).bytes_per_weight * 8, 8.5);
  EXPECT_EQ(Cpu(1).Choose(kBf16, LoadAs::kFp8).bytes_per_weight * 8, 8.25);
}

}  // namespace
}  // namespace quern::backend
