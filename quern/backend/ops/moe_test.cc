#include "quern/backend/ops/moe.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "quern/backend/ops/op_testing.h"
#include "quern/numerics/bf16.h"

namespace quern::backend {
namespace {

constexpr Dtype kTypes[] = {Dtype::kF32, Dtype::kBf16};

// Tables of one routing and their memory.
struct RoutesCase {
  RoutesCase(int64_t num_tokens, int64_t slots, int64_t num_experts)
      : experts(Dtype::kI32, {num_tokens, slots}),
        weights(Dtype::kF32, {num_tokens, slots}),
        offsets(Dtype::kI32, {num_experts + 1}),
        tokens(Dtype::kI32, {num_tokens * slots}),
        row_of(Dtype::kI32, {num_tokens, slots}) {}
  Routes view() {
    return {experts.view(), weights.view(), offsets.view(), tokens.view(), row_of.view()};
  }
  TestTensor experts, weights, offsets, tokens, row_of;
};

void ExpectSameRoutes(RoutesCase& got, RoutesCase& want) {
  EXPECT_EQ(got.experts.Ints(), want.experts.Ints());
  EXPECT_TRUE(SameBits(got.weights, want.weights));
  EXPECT_EQ(got.offsets.Ints(), want.offsets.Ints());
  EXPECT_EQ(got.tokens.Ints(), want.tokens.Ints());
  EXPECT_EQ(got.row_of.Ints(), want.row_of.Ints());
}

TEST(RouteTest, EqualsTheReferenceAndSortsByExpert) {
  Rng rng(1);
  for (int64_t experts : {1, 2, 8, 17, 64, 256}) {
    for (int64_t tokens : {1, 2, 7, 65, 300}) {
      for (int64_t slots : {int64_t{1}, std::min<int64_t>(experts, 8), experts}) {
        if (slots * tokens > 3000) continue;
        SCOPED_TRACE(fmt::format("experts {} tokens {} slots {}", experts, tokens, slots));
        TestTensor logits(Dtype::kF32, {tokens, experts}, 3), bias(Dtype::kF32, {experts});
        logits.Fill(rng, 2.0f), bias.Fill(rng, 0.1f);
        for (bool normalize : {false, true}) {
          RoutesCase want(tokens, slots, experts);
          const RoutesCase blank = want;
          ASSERT_TRUE(Ref().Route({logits, bias, normalize, 2.5f, want.view()}).ok());
          ForEachCpu([&](Backend& be) {
            RoutesCase got = blank;
            ASSERT_TRUE(be.Route({logits, bias, normalize, 2.5f, got.view()}).ok());
            ExpectSameRoutes(got, want);
          });
          for (int64_t e = 0; e < experts; ++e) {
            for (int64_t r = want.offsets.Int(e); r < want.offsets.Int(e + 1); ++r) {
              const int32_t token = want.tokens.Int(r);
              if (r > want.offsets.Int(e)) {
                EXPECT_LT(want.tokens.Int(r - 1), token);
              }
              bool found = false;
              for (int64_t s = 0; s < slots; ++s) {
                found |= want.experts.Int(token * slots + s) == e &&
                         want.row_of.Int(token * slots + s) == r;
              }
              EXPECT_TRUE(found) << "row " << r;
            }
          }
          EXPECT_EQ(want.offsets.Int(0), 0);
          EXPECT_EQ(want.offsets.Int(experts), tokens * slots);
        }
      }
    }
  }
}

TEST(RouteTest, WeightsLeaveTheBiasOutAndAreNormalised) {
  TestTensor logits(Dtype::kF32, {1, 4}), bias(Dtype::kF32, {4});
  const float l[] = {0.5f, -1.0f, 2.0f, 0.0f}, b[] = {0.0f, 5.0f, 0.0f, 0.0f};
  for (int64_t i = 0; i < 4; ++i) logits.Set(i, l[i]), bias.Set(i, b[i]);
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  for (Backend* be : {&Ref(), &Cpu(1)}) {
    RoutesCase r(1, 2, 4);
    ASSERT_TRUE(be->Route({logits, bias, true, 2.5f, r.view()}).ok());
    EXPECT_EQ(r.experts.Ints(), (std::vector<int32_t>{1, 2}));  // the bias lifts expert 1
    const double sum = sigmoid(-1.0) + sigmoid(2.0);
    EXPECT_NEAR(r.weights.Get(0), 2.5 * sigmoid(-1.0) / sum, 1e-6);
    EXPECT_NEAR(r.weights.Get(1), 2.5 * sigmoid(2.0) / sum, 1e-6);
    ASSERT_TRUE(be->Route({logits, bias, false, 3.0f, r.view()}).ok());
    EXPECT_NEAR(r.weights.Get(0), 3.0 * sigmoid(-1.0), 1e-6);
  }
}

// Biases of published checkpoints lie near 34.5, where bf16 steps are 0.25: two experts 1e-3 apart
// are told apart in f32 only.
TEST(RouteTest, BiasIsUsedInF32) {
  TestTensor logits(Dtype::kF32, {1, 3}), bias(Dtype::kF32, {3});
  const float b[] = {34.500f, 34.501f, 30.0f};
  for (int64_t i = 0; i < 3; ++i) logits.Set(i, 0.25f), bias.Set(i, b[i]);
  for (Backend* be : {&Ref(), &Cpu(1), &Cpu(3)}) {
    RoutesCase r(1, 1, 3);
    ASSERT_TRUE(be->Route({logits, bias, true, 1.0f, r.view()}).ok());
    EXPECT_EQ(r.experts.Int(0), 1);
    TestTensor rounded = bias;  // what a cast to bf16 on the way would do
    for (int64_t i = 0; i < 3; ++i) rounded.Set(i, Bf16ToF32(F32ToBf16(b[i])));
    ASSERT_TRUE(be->Route({logits, rounded, true, 1.0f, r.view()}).ok());
    EXPECT_EQ(r.experts.Int(0), 0) << "the rounded bias makes a tie, which goes to the lower id";
  }
}

TEST(RouteTest, TiesGoToTheLowerIdAndNoExpertIsChosenTwice) {
  TestTensor logits(Dtype::kF32, {1, 6}), bias(Dtype::kF32, {6});
  for (float value : {0.0f, -INFINITY}) {  // experts masked by a bias of -inf still differ
    for (int64_t i = 0; i < 6; ++i) logits.Set(i, 0.7f), bias.Set(i, value);
    for (Backend* be : {&Ref(), &Cpu(2)}) {
      RoutesCase r(1, 4, 6);
      ASSERT_TRUE(be->Route({logits, bias, true, 1.0f, r.view()}).ok());
      EXPECT_EQ(r.experts.Ints(), (std::vector<int32_t>{0, 1, 2, 3})) << value;
    }
  }
}

TEST(RouteTest, InfiniteLogitsAreChosenAndNanIsAnError) {
  TestTensor logits(Dtype::kF32, {3, 4}), bias(Dtype::kF32, {4});
  for (int64_t i = 0; i < 12; ++i) logits.Set(i, 0.0f);
  for (int64_t i = 0; i < 4; ++i) bias.Set(i, 0.0f);
  for (Backend* be : {&Ref(), &Cpu(1), &Cpu(2)}) {
    RoutesCase r(3, 2, 4);
    logits.Set(6, INFINITY), logits.Set(4, -INFINITY);
    ASSERT_TRUE(be->Route({logits, bias, true, 1.0f, r.view()}).ok());
    EXPECT_EQ(r.experts.Int(2), 2);
    logits.Set(6, NAN);
    const Status s = be->Route({logits, bias, true, 1.0f, r.view()});
    EXPECT_EQ(s.code(), StatusCode::kInternal);
    EXPECT_NE(s.message().find("expert 2"), std::string::npos) << s.message();
    EXPECT_NE(s.message().find("row 1"), std::string::npos) << s.message();
  }
}

TEST(GatherRowsTest, EqualsTheReferenceAndCopiesRows) {
  Rng rng(2);
  for (int64_t n : {1, 7, 64, 100}) {
    for (Dtype type : kTypes) {
      TestTensor x(type, {9, n}, 3), rows(Dtype::kI32, {200}), want(type, {200, n}, 1);
      x.Fill(rng);
      for (int64_t i = 0; i < 200; ++i) rows.Int(i) = static_cast<int32_t>(Uniform(rng, 0, 8));
      const TestTensor blank = want;
      ASSERT_TRUE(Ref().GatherRows({x, rows, want}).ok());
      ForEachCpu([&](Backend& be) {
        TestTensor got = blank;
        ASSERT_TRUE(be.GatherRows({x, rows, got}).ok());
        EXPECT_TRUE(SameBits(got, want));
      });
      for (int64_t i = 0; i < 200; ++i) EXPECT_EQ(want.Get(i * n), x.Get(rows.Int(i) * n));
    }
  }
}

TEST(ScatterRowsTest, PutsRowsBackAndLeavesOthers) {
  Rng rng(3);
  for (int64_t n : {1, 7, 100}) {
    for (Dtype type : kTypes) {
      TestTensor x(type, {5, n}, 3), rows(Dtype::kI32, {5}), before(type, {12, n}, 1);
      x.Fill(rng);
      before.Fill(rng);
      const int32_t order[] = {7, 0, 11, 3, 4};
      for (int64_t i = 0; i < 5; ++i) rows.Int(i) = order[i];
      const auto check = [&](Backend& be) {
        TestTensor y = before, back(type, {5, n}, 1);
        ASSERT_TRUE(be.ScatterRows({x, rows, y}).ok());
        ASSERT_TRUE(be.GatherRows({y, rows, back}).ok());
        for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(back.Get(i * n), x.Get(i * n));
        for (int64_t i : {1, 2, 5, 6, 8, 9, 10}) EXPECT_EQ(y.Get(i * n), before.Get(i * n));
      };
      check(Ref());
      check(Cpu(2));
    }
  }
}

// Experts and their stored bytes; each expert has two parts, as gate and up are two matrices.
struct ExpertsCase {
  ExpertsCase(WeightFormat format, int64_t experts, int64_t n0, int64_t n1, int64_t k, Rng& rng) {
    stored.reserve(static_cast<size_t>(2 * experts));
    for (int64_t e = 0; e < experts; ++e) {
      stored.push_back(MakeStored(format, n0, k, rng, {.block_rows = 16, .block_cols = 32}));
      stored.push_back(MakeStored(format, n1, k, rng, {.block_rows = 16, .block_cols = 32}));
      parts.push_back({stored[stored.size() - 2].matrix, stored.back().matrix});
    }
  }
  std::unique_ptr<ExpertWeights> Load(Backend& be, LoadAs as = LoadAs::kStored) const {
    std::vector<std::span<const StoredMatrix>> spans(parts.begin(), parts.end());
    return be.LoadExperts(spans, as).value();
  }
  std::vector<StoredCase> stored;
  std::vector<std::vector<StoredMatrix>> parts;
};

RoutesCase RoutesOf(const std::vector<int32_t>& rows_per_expert) {
  const int64_t rows = std::accumulate(rows_per_expert.begin(), rows_per_expert.end(), 0);
  RoutesCase r(rows, 1, static_cast<int64_t>(rows_per_expert.size()));
  r.offsets.Int(0) = 0;
  for (size_t e = 0; e < rows_per_expert.size(); ++e) {
    const auto i = static_cast<int64_t>(e);
    r.offsets.Int(i + 1) = r.offsets.Int(i) + rows_per_expert[e];
  }
  return r;
}

// Decode (one row), no rows at all, a ragged prefill, more rows than one pass holds.
const std::vector<int32_t> kRowsPerExpert[] = {
    {1, 0, 0, 1}, {0, 0, 0, 0}, {3, 0, 17, 5}, {0, 97, 13, 96}, {12, 2, 4, 200}};

void ExpectMoeGemmMatches(LoadAs as) {
  Rng rng(3);
  for (WeightFormat format : kAllFormats) {
    for (int64_t k : {32, 288}) {
      const ExpertsCase experts(format, 4, 20, 7, k, rng);
      const auto ref_w = experts.Load(Ref(), as), cpu_w = experts.Load(Cpu(1), as);
      for (const auto& rows_per_expert : kRowsPerExpert) {
        RoutesCase routes = RoutesOf(rows_per_expert);
        const int64_t rows = routes.tokens.size();
        if (k == 288 && rows > 40) continue;
        const Dtype type = k == 32 ? Dtype::kBf16 : Dtype::kF32;
        SCOPED_TRACE(fmt::format("{} k {} rows {}", WeightFormatName(format), k, rows));
        TestTensor x(type, {rows, k}, 1), want(type, {rows, 27}, 4);
        x.Fill(rng);
        const TestTensor blank = want;
        ASSERT_TRUE(Ref().MoeGemm({x, *ref_w, routes.view(), want}).ok());
        ForEachCpu([&](Backend& be) {
          TestTensor got = blank;
          ASSERT_TRUE(be.MoeGemm({x, *cpu_w, routes.view(), got}).ok());
          EXPECT_TRUE(SameBits(got, want));
        });
      }
    }
  }
}

TEST(MoeGemmTest, EqualsTheReferenceBitForBit) { ExpectMoeGemmMatches(LoadAs::kStored); }
TEST(MoeGemmTest, Int8EqualsTheReferenceBitForBit) { ExpectMoeGemmMatches(LoadAs::kInt8); }

TEST(MoeGemmTest, ARowHasTheSameBitsAloneAndInABatch) {
  Rng rng(4);
  const int64_t k = 160, n = 40;
  const ExpertsCase experts(WeightFormat::kMxfp4, 3, 30, 10, k, rng);
  const auto w = experts.Load(Cpu(1));
  RoutesCase all = RoutesOf({101, 5, 1});
  const int64_t rows = all.tokens.size();
  TestTensor x(Dtype::kF32, {rows, k}), whole(Dtype::kF32, {rows, n});
  x.Fill(rng);
  const TestTensor blank = whole;
  ASSERT_TRUE(Cpu(1).MoeGemm({x, *w, all.view(), whole}).ok());
  ForEachCpu([&](Backend& be) {
    TestTensor alone = blank;
    for (int64_t r = 0; r < rows; ++r) {
      RoutesCase one = RoutesOf({r < 101, r >= 101 && r < 106, r == 106});
      ASSERT_TRUE(be.MoeGemm({x.view().Rows(r, 1), *w, one.view(), alone.view().Rows(r, 1)}).ok());
    }
    EXPECT_TRUE(SameBits(alone, whole));
  });
}

TEST(SwiGluTest, EqualsTheReferenceBitForBit) {
  Rng rng(5);
  for (int64_t n : {1, 7, 15, 16, 17, 63, 64, 65, 129}) {
    for (Dtype type : kTypes) {
      SCOPED_TRACE(fmt::format("n {} {}", n, DtypeName(type)));
      TestTensor gate_up(type, {6, 2 * n}, 3), want(type, {6, n}, 2);
      gate_up.Fill(rng, 8.0f);
      for (int64_t i = 0; i < n; ++i) gate_up.Set(i, Normal(rng, 100.0f));  // saturates
      const TestTensor blank = want;
      ASSERT_TRUE(Ref().SwiGlu({gate_up, want}).ok());
      ForEachCpu([&](Backend& be) {
        TestTensor got = blank;
        ASSERT_TRUE(be.SwiGlu({gate_up, got}).ok());
        EXPECT_TRUE(SameBits(got, want));
      });
    }
  }
}

TEST(SwiGluTest, RoundsSiluBeforeTheProduct) {
  TestTensor gate_up(Dtype::kBf16, {1, 4}), y(Dtype::kBf16, {1, 2});
  const float in[] = {1.3f, -0.7f, 1.7f, 2.3f};
  for (int64_t i = 0; i < 4; ++i) gate_up.Set(i, in[i]);
  ASSERT_TRUE(Cpu(1).SwiGlu({gate_up, y}).ok());
  for (int64_t i = 0; i < 2; ++i) {
    const double g = gate_up.Get(i);
    const float silu = Bf16ToF32(F32ToBf16(static_cast<float>(g / (1 + std::exp(-g)))));
    EXPECT_EQ(y.Get(i), Bf16ToF32(F32ToBf16(silu * gate_up.Get(2 + i))));
  }
}

TEST(CombineTest, EqualsTheReferenceAndAddsInSlotOrder) {
  Rng rng(6);
  for (int64_t n : {1, 15, 16, 65}) {
    for (Dtype rows_type : kTypes) {
      for (Dtype y_type : kTypes) {
        const int64_t tokens = 5, slots = 3;
        RoutesCase routes(tokens, slots, 4);
        std::vector<int32_t> order(static_cast<size_t>(tokens * slots));
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), rng);
        routes.row_of.Ints(order);
        routes.weights.Fill(rng);
        TestTensor rows(rows_type, {tokens * slots, n}, 2), want(y_type, {tokens, n}, 1);
        rows.Fill(rng, 10.0f);
        const TestTensor blank = want;
        ASSERT_TRUE(Ref().Combine({rows, routes.view(), want}).ok());
        ForEachCpu([&](Backend& be) {
          TestTensor got = blank;
          ASSERT_TRUE(be.Combine({rows, routes.view(), got}).ok());
          EXPECT_TRUE(SameBits(got, want));
        });
        for (int64_t t = 0; t < tokens; ++t) {
          float sum = 0.0f;
          for (int64_t s = 0; s < slots; ++s) {
            const float product =
                routes.weights.Get(t * slots + s) * rows.Get(routes.row_of.Int(t * slots + s) * n);
            sum += product;
          }
          EXPECT_EQ(want.Get(t * n), host::RoundTo(y_type, sum));
        }
      }
    }
  }
}

}  // namespace
}  // namespace quern::backend
