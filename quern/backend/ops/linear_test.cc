#include "quern/backend/ops/linear.h"

#include <cmath>

#include "quern/backend/ops/op_testing.h"

namespace quern::backend {
namespace {

std::unique_ptr<LinearWeights> Load(Backend& be, std::vector<StoredMatrix> parts,
                                    LoadAs as = LoadAs::kStored) {
  auto w = be.LoadLinear(parts, as);
  EXPECT_TRUE(w.ok()) << w.status().ToString();
  return std::move(w).value();
}

struct Shape {
  int64_t tokens, n, k;
};

void ExpectLinearMatches(const std::vector<StoredMatrix>& parts, int64_t tokens, Dtype x_type,
                         Dtype y_type, Rng& rng) {
  const auto ref_w = Load(Ref(), parts);
  const auto cpu_w = Load(Cpu(1), parts);  // packed alike for every target
  TestTensor x(x_type, {tokens, ref_w->cols()}, /*pad=*/5);
  x.Fill(rng);
  TestTensor want(y_type, {tokens, ref_w->rows()}, /*pad=*/3), blank = want;
  ASSERT_TRUE(Ref().Linear({x, *ref_w, want}).ok());
  ForEachCpu([&](Backend& be) {
    TestTensor got = blank;
    ASSERT_TRUE(be.Linear({x, *cpu_w, got}).ok());
    EXPECT_TRUE(SameBits(got, want));
  });
}

constexpr Shape kShapes[] = {
    {1, 1, 1},    {1, 7, 15},  {2, 15, 16},  {3, 16, 17},   {4, 17, 63},   {5, 63, 64},
    {6, 64, 65},  {7, 65, 33}, {8, 80, 255}, {9, 33, 256},  {10, 48, 257}, {11, 1, 300},
    {12, 130, 7}, {13, 64, 9}, {96, 17, 20}, {97, 66, 270}, {200, 20, 40}, {1, 100, 1030},
};

TEST(LinearTest, EqualsTheReferenceBitForBit) {
  Rng rng(1);
  for (WeightFormat format : kAllFormats) {
    for (const Shape& s : kShapes) {
      const int64_t k = RoundCols(format, s.k);
      SCOPED_TRACE(
          fmt::format("{} tokens {} n {} k {}", WeightFormatName(format), s.tokens, s.n, k));
      const StoredCase w = MakeStored(format, s.n, k, rng, {.block_rows = 16, .block_cols = 24});
      const bool even = (s.tokens + s.n) % 2 == 0;
      ExpectLinearMatches({w.matrix}, s.tokens, even ? Dtype::kF32 : Dtype::kBf16,
                          s.k % 2 == 0 ? Dtype::kF32 : Dtype::kBf16, rng);
    }
  }
}

TEST(LinearTest, EveryActivationTypeAndTheOfficialBlockSize) {
  Rng rng(2);
  for (WeightFormat format : kAllFormats) {
    for (Dtype x : {Dtype::kF32, Dtype::kBf16}) {
      for (Dtype y : {Dtype::kF32, Dtype::kBf16}) {
        SCOPED_TRACE(fmt::format("{} {} {}", WeightFormatName(format), DtypeName(x), DtypeName(y)));
        const StoredCase w = MakeStored(format, 150, 288, rng);
        ExpectLinearMatches({w.matrix}, 5, x, y, rng);
      }
    }
  }
}

TEST(LinearTest, PartsOfDifferentFormatsAreStacked) {
  Rng rng(3);
  const StoredCase a = MakeStored(WeightFormat::kMxfp4, 33, 64, rng);
  const StoredCase b = MakeStored(WeightFormat::kBf16, 70, 64, rng);
  const StoredCase c =
      MakeStored(WeightFormat::kFp8Block, 1, 64, rng, {.block_rows = 8, .block_cols = 40});
  for (int64_t tokens : {1, 4, 17}) {
    ExpectLinearMatches({a.matrix, b.matrix, c.matrix}, tokens, Dtype::kBf16, Dtype::kBf16, rng);
  }
}

// Codes that mean NaN, and scale code 0 (a subnormal 2^-127), decode as numerics/ defines.
TEST(LinearTest, NotANumberCodes) {
  Rng rng(4);
  for (WeightFormat format :
       {WeightFormat::kFp8Block, WeightFormat::kFp8Channel, WeightFormat::kFp8Tensor,
        WeightFormat::kMxfp4, WeightFormat::kNvfp4}) {
    SCOPED_TRACE(WeightFormatName(format));
    // k = 16 or 32: most outputs still are numbers.
    const StoredCase w = MakeStored(format, 400, RoundCols(format, 16), rng, {.nan_codes = true});
    ExpectLinearMatches({w.matrix}, 3, Dtype::kF32, Dtype::kF32, rng);
  }
}

// All 256 codes, decoded by a product with 1.
TEST(LinearTest, DecodesEveryCode) {
  for (WeightFormat format : {WeightFormat::kFp8Tensor, WeightFormat::kMxfp4}) {
    const bool fp4 = format == WeightFormat::kMxfp4;
    const int64_t cols = 32, row_bytes = fp4 ? cols / 2 : cols;
    std::vector<std::byte> codes(static_cast<size_t>(256 * row_bytes), std::byte{0});
    std::vector<std::byte> scales(256);
    for (size_t i = 0; i < 256; ++i) {
      codes[i * static_cast<size_t>(row_bytes)] = static_cast<std::byte>(i);
      scales[i] = static_cast<std::byte>(fp4 ? i : 0);
    }
    const float one = 1.0f;
    if (!fp4) std::memcpy(scales.data(), &one, 4);
    StoredMatrix m;
    m.format = format, m.rows = 256, m.cols = cols, m.data = codes.data(), m.row_bytes = row_bytes;
    m.scales = scales.data(), m.scale_row_bytes = fp4 ? 1 : 0;
    TestTensor x(Dtype::kF32, {2, cols}), blank(Dtype::kF32, {2, 256});
    for (int64_t i = 0; i < x.size(); ++i) x.Set(i, 0.0f);
    x.Set(0, 1.0f);         // row 0 reads element 0
    x.Set(cols + 1, 1.0f);  // row 1 reads element 1: the high nibble of the first byte
    const auto w = Load(Cpu(1), {m});
    std::vector<float> row(static_cast<size_t>(cols));
    ForEachCpu([&](Backend& be) {
      TestTensor y = blank;
      ASSERT_TRUE(be.Linear({x, *w, y}).ok());
      for (int64_t r = 0; r < 256; ++r) {
        DecodeRow(m, r, row.data());
        for (int64_t e = 0; e < 2; ++e) {
          float want = 0.0f;  // a NaN in the row spreads, through 0 * NaN
          for (int64_t k = 0; k < cols; ++k)
            want += x.Get(e * cols + k) * row[static_cast<size_t>(k)];
          const float got = y.Get(e * 256 + r);
          EXPECT_TRUE(got == want || (got != got && want != want))
              << "code " << r << " element " << e << ": " << got << " want " << want;
        }
      }
    });
  }
}

// Independent of ref: against sums in double, within k 2^-24 sum |x w| (and one bf16 step).
TEST(LinearTest, WithinTheBoundOfExactArithmetic) {
  Rng rng(5);
  for (WeightFormat format : kAllFormats) {
    const int64_t tokens = 3, n = 40, k = 544;
    const StoredCase w = MakeStored(format, n, k, rng);
    TestTensor x(Dtype::kBf16, {tokens, k});
    x.Fill(rng);
    TestTensor y(Dtype::kBf16, {tokens, n});
    const auto loaded = Load(Cpu(2), {w.matrix});
    ASSERT_TRUE(Cpu(2).Linear({x, *loaded, y}).ok());
    std::vector<float> row(static_cast<size_t>(k));
    for (int64_t r = 0; r < n; ++r) {
      DecodeRow(w.matrix, r, row.data());
      for (int64_t t = 0; t < tokens; ++t) {
        double sum = 0, magnitude = 0;
        for (int64_t i = 0; i < k; ++i) {
          const double term = static_cast<double>(row[static_cast<size_t>(i)]) * x.Get(t * k + i);
          sum += term, magnitude += std::fabs(term);
        }
        const double bound = std::ldexp(static_cast<double>(k) * magnitude, -24) +
                             std::ldexp(std::fabs(sum) + magnitude * 1e-4, -8);
        EXPECT_NEAR(y.Get(t * n + r), sum, bound) << WeightFormatName(format) << " row " << r;
      }
    }
  }
}

TEST(LinearTest, ARowHasTheSameBitsAloneAndInABatch) {
  Rng rng(6);
  for (WeightFormat format : {WeightFormat::kBf16, WeightFormat::kFp8Block, WeightFormat::kMxfp4}) {
    const int64_t tokens = 211, n = 72, k = 320;
    const StoredCase w = MakeStored(format, n, k, rng);
    const auto weights = Load(Cpu(1), {w.matrix});
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

TEST(LinearTest, NoRowsIsFine) {
  Rng rng(7);
  const StoredCase w = MakeStored(WeightFormat::kBf16, 20, 33, rng);
  TestTensor x(Dtype::kBf16, {0, 33}), y(Dtype::kBf16, {0, 20});
  for (Backend* be : {&Ref(), &Cpu(2)}) {
    const auto loaded = Load(*be, {w.matrix});
    EXPECT_TRUE(be->Linear({x, *loaded, y}).ok());
  }
}

TEST(HeadLinearTest, EqualsTheReferenceBitForBit) {
  Rng rng(8);
  const int64_t heads = 3, head_rows = 44, cols = 50;
  for (WeightFormat format : {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBf16,
                              WeightFormat::kFp8Block, WeightFormat::kFp8Channel}) {
    const StoredCase w =
        MakeStored(format, heads * head_rows, cols, rng, {.block_rows = 32, .block_cols = 32});
    for (bool transpose : {false, true}) {
      for (int64_t first : {0, 24}) {
        const int64_t count = 20, k = transpose ? count : cols, n = transpose ? cols : count;
        const auto load = [&](Backend& be) {
          return be.LoadHeads(w.matrix, heads, head_rows, first, count, transpose).value();
        };
        const auto ref_w = load(Ref());
        EXPECT_EQ(ref_w->rows(), n);
        EXPECT_EQ(ref_w->cols(), k);
        for (int64_t tokens : {1, 5, 13, 100}) {
          SCOPED_TRACE(fmt::format("{} transpose {} tokens {}", WeightFormatName(format), transpose,
                                   tokens));
          // x and y are slices of wider heads, as the model's q is.
          const Dtype type = tokens % 2 == 1 ? Dtype::kF32 : Dtype::kBf16;
          TestTensor x(type, {tokens, heads, k + 9}), want(type, {tokens, heads, n + 6});
          x.Fill(rng);
          const TestTensor blank = want;
          ASSERT_TRUE(
              Ref().HeadLinear({x.view().Columns(4, k), *ref_w, want.view().Columns(2, n)}).ok());
          const auto loaded = load(Cpu(1));
          ForEachCpu([&](Backend& be) {
            TestTensor got = blank;
            ASSERT_TRUE(
                be.HeadLinear({x.view().Columns(4, k), *loaded, got.view().Columns(2, n)}).ok());
            EXPECT_TRUE(SameBits(got, want));
          });
        }
      }
    }
  }
}

TEST(HeadLinearTest, TransposesAndSlicesAsTheInterfaceSays) {
  Rng rng(9);
  const int64_t heads = 2, head_rows = 5, cols = 7, first = 1, count = 3;
  const StoredCase w = MakeStored(WeightFormat::kF32, heads * head_rows, cols, rng);
  std::vector<float> row(static_cast<size_t>(cols));
  for (Backend* be : {&Ref(), &Cpu(1)}) {
    const auto heads_w = be->LoadHeads(w.matrix, heads, head_rows, first, count, true).value();
    TestTensor x(Dtype::kF32, {1, heads, count}), y(Dtype::kF32, {1, heads, cols});
    for (int64_t i = 0; i < x.size(); ++i) x.Set(i, i % count == 1 ? 1.0f : 0.0f);
    ASSERT_TRUE(be->HeadLinear({x, *heads_w, y}).ok());
    for (int64_t h = 0; h < heads; ++h) {
      DecodeRow(w.matrix, h * head_rows + first + 1, row.data());  // x picks the second row used
      for (int64_t c = 0; c < cols; ++c)
        EXPECT_EQ(y.Get(h * cols + c), row[static_cast<size_t>(c)]) << be->name();
    }
  }
}

TEST(EmbedTest, EqualsTheReferenceAndRefusesForeignIds) {
  Rng rng(10);
  for (WeightFormat format : {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBf16}) {
    const StoredCase w = MakeStored(format, 30, 37, rng);
    const auto ref_w = Ref().LoadTable(w.matrix).value();
    const auto cpu_w = Cpu(1).LoadTable(w.matrix).value();
    TestTensor ids(Dtype::kI32, {5});
    ids.Ints(std::vector<int32_t>{29, 0, 7, 7, 1});
    for (Dtype type : {Dtype::kF32, Dtype::kBf16}) {
      TestTensor want(type, {5, 37}, 2), blank = want;
      ASSERT_TRUE(Ref().Embed({*ref_w, ids, want}).ok());
      ForEachCpu([&](Backend& be) {
        TestTensor got = blank;
        ASSERT_TRUE(be.Embed({*cpu_w, ids, got}).ok());
        EXPECT_TRUE(SameBits(got, want));
      });
    }
    TestTensor y(Dtype::kF32, {5, 37});
    for (int32_t bad : {-1, 30, INT32_MAX, INT32_MIN}) {
      ids.Int(2) = bad;
      EXPECT_EQ(Ref().Embed({*ref_w, ids, y}).code(), StatusCode::kInvalidArgument);
      EXPECT_EQ(Cpu(1).Embed({*cpu_w, ids, y}).code(), StatusCode::kInvalidArgument);
    }
  }
}

}  // namespace
}  // namespace quern::backend
