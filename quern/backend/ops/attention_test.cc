#include "quern/backend/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "quern/backend/ops/op_testing.h"
#include "quern/backend/ref/ref_ops.h"

namespace quern::backend {
namespace {

constexpr Dtype kTypes[] = {Dtype::kF32, Dtype::kBf16};

// Sequences of `lengths` tokens whose pages lie shuffled in a pool with unused pages between; the
// rows of the batch are the last `rows[i]` positions of sequence i.
struct BatchCase {
  BatchCase(const std::vector<int64_t>& lengths, const std::vector<int64_t>& rows, Rng& rng) {
    const int64_t num_seqs = static_cast<int64_t>(lengths.size());
    int64_t num_rows = 0, max_pages = 1;
    for (size_t s = 0; s < lengths.size(); ++s) {
      num_rows += rows[s];
      num_pages += (lengths[s] + 63) / 64 + 1;
      max_pages = std::max(max_pages, (lengths[s] + 63) / 64);
    }
    std::vector<int32_t> order(static_cast<size_t>(num_pages));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), rng);
    positions = TestTensor(Dtype::kI32, {num_rows});
    sequences = TestTensor(Dtype::kI32, {num_rows});
    tables = TestTensor(Dtype::kI32, {num_seqs, max_pages}, 3);
    int64_t row = 0, page = 0;
    for (int64_t s = 0; s < num_seqs; ++s) {
      const int64_t length = lengths[static_cast<size_t>(s)];
      for (int64_t p = 0; p < max_pages; ++p)  // unused entries are never read
        tables.Int(s * max_pages + p) =
            p < (length + 63) / 64 ? order[static_cast<size_t>(page++)] : -7;
      for (int64_t p = length - rows[static_cast<size_t>(s)]; p < length; ++p, ++row) {
        positions.Int(row) = static_cast<int32_t>(p);
        sequences.Int(row) = static_cast<int32_t>(s);
      }
    }
  }
  BatchView view() { return {positions, sequences, tables}; }
  BatchView Rows(int64_t begin, int64_t count) {
    return {positions.view().Rows(begin, count), sequences.view().Rows(begin, count), tables};
  }
  int64_t num_rows() const { return positions.size(); }

  int64_t num_pages = 0;
  TestTensor positions, sequences, tables;
};

BatchCase Ragged(Rng& rng) { return BatchCase({1, 64, 65, 130, 200}, {1, 1, 3, 2, 5}, rng); }

TEST(CacheWriteTest, EqualsTheReferenceAndLandsOnThePagesOfTheSequence) {
  Rng rng(1);
  for (Dtype type : kTypes) {
    BatchCase batch = Ragged(rng);
    TestTensor rows(type, {batch.num_rows(), 36}, 2), want(type, {batch.num_pages, 64, 36});
    rows.Fill(rng);
    const TestTensor blank = want;
    ASSERT_TRUE(Ref().CacheWrite({rows, batch.view(), want}).ok());
    ForEachCpu([&](Backend& be) {
      TestTensor got = blank;
      ASSERT_TRUE(be.CacheWrite({rows, batch.view(), got}).ok());
      EXPECT_TRUE(SameBits(got, want));
    });
    const int64_t max_pages = batch.tables.view().dim(1);
    for (int64_t t = 0; t < batch.num_rows(); ++t) {
      const int64_t p = batch.positions.Int(t);
      const int64_t page = batch.tables.Int(batch.sequences.Int(t) * max_pages + p / 64);
      for (int64_t i = 0; i < 36; ++i)
        EXPECT_EQ(want.Get((page * 64 + p % 64) * 36 + i), rows.Get(t * 36 + i));
    }
  }
}

struct SelectCase {
  SelectCase(int64_t rows, int64_t top_k)
      : positions(Dtype::kI32, {rows, top_k}), counts(Dtype::kI32, {rows}) {}
  Selection view() { return {positions, counts}; }
  std::vector<int32_t> Row(int64_t t) {
    const int64_t top_k = positions.view().dim(1);
    std::vector<int32_t> out;
    for (int64_t i = 0; i < counts.Int(t); ++i) out.push_back(positions.Int(t * top_k + i));
    return out;
  }
  TestTensor positions, counts;
};

void ExpectSameSelection(SelectCase& got, SelectCase& want, int64_t rows) {
  for (int64_t t = 0; t < rows; ++t) EXPECT_EQ(got.Row(t), want.Row(t)) << "row " << t;
}

TEST(IndexSelectTest, EqualsTheReference) {
  Rng rng(2);
  for (int64_t heads : {1, 4, 8, 16, 17, 20, 32, 64}) {
    for (Dtype type : kTypes) {
      BatchCase batch = Ragged(rng);
      const int64_t rows = batch.num_rows(), dim = heads == 4 ? 33 : 32;
      TestTensor q(type, {rows, heads, dim}, 1), weights(Dtype::kF32, {rows, heads}, 1);
      TestTensor keys(heads % 2 == 0 ? type : Dtype::kBf16, {batch.num_pages, 64, dim});
      q.Fill(rng), weights.Fill(rng), keys.Fill(rng);
      for (int64_t top_k : {1, 16, 64, 199, 200, 300}) {
        SCOPED_TRACE(fmt::format("heads {} {} top_k {}", heads, DtypeName(type), top_k));
        SelectCase want(rows, top_k);
        ASSERT_TRUE(Ref().IndexSelect({q, weights, 0.37f, keys, batch.view(), want.view()}).ok());
        for (int64_t t = 0; t < rows; ++t) {
          const std::vector<int32_t> chosen = want.Row(t);
          EXPECT_EQ(static_cast<int64_t>(chosen.size()),
                    std::min<int64_t>(top_k, batch.positions.Int(t) + 1));
          EXPECT_TRUE(std::is_sorted(chosen.begin(), chosen.end()));
        }
        ForEachCpu([&](Backend& be) {
          SelectCase got(rows, top_k);
          ASSERT_TRUE(be.IndexSelect({q, weights, 0.37f, keys, batch.view(), got.view()}).ok());
          ExpectSameSelection(got, want, rows);
        });
      }
    }
  }
}

// More rows than one block, contexts longer than one chunk of keys; rows alone give the same.
TEST(IndexSelectTest, LongContextsAndManyRowsAloneAndTogether) {
  Rng rng(3);
  BatchCase batch({2300, 70, 1025}, {2, 33, 1}, rng);
  const int64_t rows = batch.num_rows(), heads = 2, dim = 8, top_k = 50;
  TestTensor q(Dtype::kF32, {rows, heads, dim}), weights(Dtype::kF32, {rows, heads});
  TestTensor keys(Dtype::kBf16, {batch.num_pages, 64, dim});
  q.Fill(rng), weights.Fill(rng), keys.Fill(rng);
  SelectCase want(rows, top_k);
  ASSERT_TRUE(Ref().IndexSelect({q, weights, 1.0f, keys, batch.view(), want.view()}).ok());
  ForEachCpu([&](Backend& be) {
    SelectCase got(rows, top_k), alone(rows, top_k);
    ASSERT_TRUE(be.IndexSelect({q, weights, 1.0f, keys, batch.view(), got.view()}).ok());
    ExpectSameSelection(got, want, rows);
    for (int64_t t = 0; t < rows; ++t) {
      const Selection one = {alone.positions.view().Rows(t, 1), alone.counts.view().Rows(t, 1)};
      ASSERT_TRUE(be.IndexSelect({q.view().Rows(t, 1), weights.view().Rows(t, 1), 1.0f, keys,
                                  batch.Rows(t, 1), one})
                      .ok());
    }
    ExpectSameSelection(alone, want, rows);
  });
}

// Scores made by hand: one head of dimension 1, so a score is relu(q k) w.
TEST(IndexSelectTest, FollowsTheFormulaWithTiesToTheLowerPosition) {
  Rng rng(4);
  BatchCase batch({70}, {1}, rng);
  TestTensor q(Dtype::kF32, {1, 1, 1}), weights(Dtype::kF32, {1, 1});
  TestTensor keys(Dtype::kF32, {batch.num_pages, 64, 1});
  q.Set(0, 2.0f), weights.Set(0, 1.0f);
  const auto set_key = [&](int64_t p, float v) {
    keys.Set(batch.tables.Int(p / 64) * 64 + p % 64, v);
  };
  for (Backend* be : {&Ref(), &Cpu(1), &Cpu(3)}) {
    for (int64_t p = 0; p < 70; ++p) set_key(p, -1.0f);  // relu: all score 0
    set_key(69, 3.0f), set_key(5, 1.0f), set_key(64, 1.0f), set_key(66, 0.5f);
    SelectCase out(1, 3);
    ASSERT_TRUE(be->IndexSelect({q, weights, 1.0f, keys, batch.view(), out.view()}).ok());
    EXPECT_EQ(out.Row(0), (std::vector<int32_t>{5, 64, 69}));
    SelectCase two(1, 2);
    ASSERT_TRUE(be->IndexSelect({q, weights, 1.0f, keys, batch.view(), two.view()}).ok());
    EXPECT_EQ(two.Row(0), (std::vector<int32_t>{5, 69})) << "5 and 64 tie";
    SelectCase six(1, 6);
    ASSERT_TRUE(be->IndexSelect({q, weights, 1.0f, keys, batch.view(), six.view()}).ok());
    EXPECT_EQ(six.Row(0), (std::vector<int32_t>{0, 1, 5, 64, 66, 69})) << "zeros tie";
    set_key(5, NAN);  // counts as the lowest
    ASSERT_TRUE(be->IndexSelect({q, weights, 1.0f, keys, batch.view(), out.view()}).ok());
    EXPECT_EQ(out.Row(0), (std::vector<int32_t>{64, 66, 69}));
  }
}

struct AttentionShape {
  int64_t heads, rank, rope;
};
constexpr AttentionShape kAttentionShapes[] = {{1, 7, 2},   {4, 32, 8},  {8, 16, 4},  {16, 33, 6},
                                               {17, 15, 2}, {20, 24, 8}, {64, 16, 16}};

TEST(MlaAttentionTest, EqualsTheReferenceBitForBit) {
  Rng rng(5);
  for (const AttentionShape& shape : kAttentionShapes) {
    for (Dtype type : kTypes) {
      BatchCase batch = Ragged(rng);
      const int64_t rows = batch.num_rows(), width = shape.rank + shape.rope;
      TestTensor q(Dtype::kF32, {rows, shape.heads, width}, 2);
      TestTensor cache(type, {batch.num_pages, 64, width});
      TestTensor want(Dtype::kF32, {rows, shape.heads, shape.rank}, 3);
      q.Fill(rng, 2.0f), cache.Fill(rng, 2.0f);
      const TestTensor blank = want;
      SelectCase selected(rows, 80);
      TestTensor iq(Dtype::kF32, {rows, 2, width}), iw(Dtype::kF32, {rows, 2});
      iq.Fill(rng), iw.Fill(rng);
      ASSERT_TRUE(Ref().IndexSelect({iq, iw, 1.0f, cache, batch.view(), selected.view()}).ok());
      const Selection selection = selected.view();
      for (const Selection* s : {static_cast<const Selection*>(nullptr), &selection}) {
        SCOPED_TRACE(fmt::format("heads {} rank {} rope {} {} sparse {}", shape.heads, shape.rank,
                                 shape.rope, DtypeName(type), s != nullptr));
        ASSERT_TRUE(Ref().MlaAttention({q, cache, 0.2f, batch.view(), s, want}).ok());
        ForEachCpu([&](Backend& be) {
          TestTensor got = blank;
          ASSERT_TRUE(be.MlaAttention({q, cache, 0.2f, batch.view(), s, got}).ok());
          EXPECT_TRUE(SameBits(got, want));
        });
      }
    }
  }
}

TEST(MlaAttentionTest, ARowHasTheSameBitsAloneAndInABatchWhateverItsPages) {
  Rng rng(6);
  BatchCase batch({150, 66}, {90, 66}, rng);
  BatchCase moved({150, 66}, {90, 66}, rng);  // the same sequences on other pages
  const int64_t rows = batch.num_rows(), heads = 5, rank = 16, width = 20;
  TestTensor q(Dtype::kF32, {rows, heads, width}), whole(Dtype::kF32, {rows, heads, rank});
  TestTensor cache(Dtype::kBf16, {batch.num_pages, 64, width});
  TestTensor moved_cache(Dtype::kBf16, {moved.num_pages, 64, width});
  q.Fill(rng), cache.Fill(rng);
  const int64_t max_pages = batch.tables.view().dim(1);
  for (int64_t e = 0; e < batch.tables.size(); ++e) {
    if (batch.tables.Int(e) < 0) continue;
    for (int64_t i = 0; i < 64 * width; ++i)
      moved_cache.Set(moved.tables.Int(e) * 64 * width + i,
                      cache.Get(batch.tables.Int(e) * 64 * width + i));
  }
  ASSERT_EQ(max_pages, 3);
  const TestTensor blank = whole;
  ASSERT_TRUE(Cpu(1).MlaAttention({q, cache, 0.2f, batch.view(), nullptr, whole}).ok());
  ForEachCpu([&](Backend& be) {
    TestTensor other = blank, chunks = blank;
    ASSERT_TRUE(be.MlaAttention({q, moved_cache, 0.2f, moved.view(), nullptr, other}).ok());
    EXPECT_TRUE(SameBits(other, whole));
    for (int64_t begin = 0, size = 1; begin < rows; begin += size++) {
      const int64_t n = std::min(size, rows - begin);
      ASSERT_TRUE(be.MlaAttention({q.view().Rows(begin, n), cache, 0.2f, batch.Rows(begin, n),
                                   nullptr, chunks.view().Rows(begin, n)})
                      .ok());
    }
    EXPECT_TRUE(SameBits(chunks, whole));
  });
}

TEST(MlaAttentionTest, SparseOverAllPositionsIsDense) {
  Rng rng(7);
  BatchCase batch = Ragged(rng);
  const int64_t rows = batch.num_rows(), heads = 4, rank = 16, width = 24;
  TestTensor q(Dtype::kF32, {rows, heads, width}),
      cache(Dtype::kBf16, {batch.num_pages, 64, width});
  TestTensor weights(Dtype::kF32, {rows, heads}), dense(Dtype::kF32, {rows, heads, rank});
  q.Fill(rng), cache.Fill(rng), weights.Fill(rng);
  const TestTensor blank = dense;
  for (int64_t top_k : {200, 333}) {
    ForEachCpu([&](Backend& be) {
      SelectCase all(rows, top_k);
      ASSERT_TRUE(be.IndexSelect({q, weights, 1.0f, cache, batch.view(), all.view()}).ok());
      const Selection s = all.view();
      TestTensor sparse = blank;
      ASSERT_TRUE(be.MlaAttention({q, cache, 0.3f, batch.view(), &s, sparse}).ok());
      ASSERT_TRUE(be.MlaAttention({q, cache, 0.3f, batch.view(), nullptr, dense}).ok());
      EXPECT_TRUE(SameBits(sparse, dense));
    });
  }
}

// Absorbed (q W_UK against the latent, then W_UV) is the same attention as K and V expanded.
TEST(MlaAttentionTest, AbsorbedFormEqualsThePlainForm) {
  Rng rng(8);
  const int64_t heads = 6, nope = 20, rope = 8, v = 24, rank = 40, width = rank + rope;
  const float scale = 1.0f / std::sqrt(static_cast<float>(nope + rope));
  StoredCase kv_b = MakeStored(WeightFormat::kBf16, heads * (nope + v), rank, rng);
  std::vector<float> kv_b_floats(static_cast<size_t>(kv_b.matrix.rows * rank));
  for (int64_t r = 0; r < kv_b.matrix.rows; ++r)
    DecodeRow(kv_b.matrix, r, kv_b_floats.data() + r * rank);
  BatchCase batch({129}, {129}, rng);
  const int64_t rows = batch.num_rows();
  TestTensor q(Dtype::kF32, {rows, heads, nope + rope}),
      cache(Dtype::kF32, {batch.num_pages, 64, width});
  q.Fill(rng), cache.Fill(rng, 0.5f);
  std::vector<float> keys;  // in position order
  for (int64_t p = 0; p < rows; ++p) {
    for (int64_t i = 0; i < width; ++i)
      keys.push_back(cache.Get((batch.tables.Int(p / 64) * 64 + p % 64) * width + i));
  }
  for (Backend* be : {&Ref(), &Cpu(2)}) {
    const auto uk = be->LoadHeads(kv_b.matrix, heads, nope + v, 0, nope, true).value();
    const auto uv = be->LoadHeads(kv_b.matrix, heads, nope + v, nope, v, false).value();
    TestTensor absorbed(Dtype::kF32, {rows, heads, width}), z(Dtype::kF32, {rows, heads, rank});
    TestTensor y(Dtype::kF32, {rows, heads, v});
    ASSERT_TRUE(
        be->HeadLinear({q.view().Columns(0, nope), *uk, absorbed.view().Columns(0, rank)}).ok());
    for (int64_t i = 0; i < rows * heads; ++i) {
      for (int64_t r = 0; r < rope; ++r)
        absorbed.Set(i * width + rank + r, q.Get(i * (nope + rope) + nope + r));
    }
    ASSERT_TRUE(be->MlaAttention({absorbed, cache, scale, batch.view(), nullptr, z}).ok());
    ASSERT_TRUE(be->HeadLinear({z, *uv, y}).ok());
    const std::vector<float> queries = q.Floats();
    std::vector<float> want(static_cast<size_t>(heads * v));
    for (int64_t t = 0; t < rows; ++t) {
      ref::PlainMla(queries.data() + t * heads * (nope + rope), kv_b_floats.data(), keys.data(),
                    batch.positions.Int(t) + 1, heads, nope, rope, v, rank, scale, want.data());
      for (int64_t i = 0; i < heads * v; ++i)
        ASSERT_NEAR(y.Get(t * heads * v + i), want[static_cast<size_t>(i)], 1e-4)
            << be->name() << " row " << t;
    }
  }
}

// Scores far apart, far below zero, and infinite: softmax is shifted by the running maximum.
TEST(MlaAttentionTest, ExtremeScores) {
  Rng rng(9);
  BatchCase batch({140}, {140}, rng);
  const int64_t rows = batch.num_rows();
  TestTensor q(Dtype::kF32, {rows, 2, 4}), cache(Dtype::kF32, {batch.num_pages, 64, 4});
  for (float scale : {1e-30f, 1.0f, 100.0f, 1e30f}) {
    q.Fill(rng), cache.Fill(rng);
    TestTensor want(Dtype::kF32, {rows, 2, 3});
    const TestTensor blank = want;
    ASSERT_TRUE(Ref().MlaAttention({q, cache, scale, batch.view(), nullptr, want}).ok());
    for (float x : want.Floats()) EXPECT_TRUE(std::isfinite(x));
    ForEachCpu([&](Backend& be) {
      TestTensor got = blank;
      ASSERT_TRUE(be.MlaAttention({q, cache, scale, batch.view(), nullptr, got}).ok());
      EXPECT_TRUE(SameBits(got, want));
    });
  }
  q.Set(8, NAN), cache.Set(100, INFINITY);  // bad numbers spread alike
  TestTensor want(Dtype::kF32, {rows, 2, 3});
  const TestTensor blank = want;
  ASSERT_TRUE(Ref().MlaAttention({q, cache, 1.0f, batch.view(), nullptr, want}).ok());
  ForEachCpu([&](Backend& be) {
    TestTensor got = blank;
    ASSERT_TRUE(be.MlaAttention({q, cache, 1.0f, batch.view(), nullptr, got}).ok());
    EXPECT_TRUE(SameBits(got, want));
  });
}

// FP8 pools: bytes, attention and selection of every CPU kernel equal the reference's, and the
// values are as near as E4M3 with that scale can be.
TEST(Fp8PoolTest, EqualsTheReferenceAndStaysNearThePlainPool) {
  Rng rng(11);
  const int64_t rank = 160, rope = 12, width = rank + rope, heads = 5;
  for (Dtype pool : {Dtype::kF8E4M3, Dtype::kU8}) {
    BatchCase batch({1, 64, 130, 200}, {1, 64, 130, 200}, rng);
    const int64_t rows = batch.num_rows();
    const int64_t stored = KeyRowElements(pool, width, rank);
    TestTensor x(Dtype::kBf16, {rows, width}), q(Dtype::kF32, {rows, heads, width});
    TestTensor plain(Dtype::kBf16, {batch.num_pages, 64, width});
    TestTensor want(pool, {batch.num_pages, 64, stored});
    x.Fill(rng), q.Fill(rng);
    const TestTensor blank = want;
    ASSERT_TRUE(Ref().CacheWrite({x, batch.view(), plain}).ok());
    ASSERT_TRUE(Ref().CacheWrite({x, batch.view(), want, rank}).ok());
    std::vector<float> row(static_cast<size_t>(width));
    for (int64_t t = 0; t < rows; ++t) {
      ref::LoadKeyRow(pool, host::CacheRow(want, batch.view(), t, batch.positions.Int(t)), width,
                      rank, row.data());
      for (int64_t i = 0; i < width; ++i) {
        const float exact = x.Get(t * width + i);
        // Half a step of three mantissa bits; below the normals a fixed step.
        const float bound = std::max(std::fabs(exact) / 16, pool == Dtype::kU8 ? 1e-4f : 1e-3f);
        EXPECT_NEAR(row[static_cast<size_t>(i)], exact, bound);
        if (pool == Dtype::kU8 && i >= rank) {
          EXPECT_EQ(row[static_cast<size_t>(i)], exact);
        }
      }
    }
    TestTensor y(Dtype::kF32, {rows, heads, rank}), near(Dtype::kF32, {rows, heads, rank});
    ASSERT_TRUE(Ref().MlaAttention({q, want, 0.1f, batch.view(), nullptr, y}).ok());
    ASSERT_TRUE(Ref().MlaAttention({q, plain, 0.1f, batch.view(), nullptr, near}).ok());
    for (int64_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y.Get(i), near.Get(i), 0.4f);

    TestTensor iq(Dtype::kF32, {rows, 3, width}), iw(Dtype::kF32, {rows, 3});
    iq.Fill(rng), iw.Fill(rng);
    TestTensor keys(pool, {batch.num_pages, 64, KeyRowElements(pool, width, width)});
    ASSERT_TRUE(Ref().CacheWrite({x, batch.view(), keys, width}).ok());
    SelectCase selected(rows, 40);
    ASSERT_TRUE(Ref().IndexSelect({iq, iw, 1.0f, keys, batch.view(), selected.view()}).ok());

    ForEachCpu([&](Backend& be) {
      TestTensor got = blank, out(Dtype::kF32, {rows, heads, rank});
      ASSERT_TRUE(be.CacheWrite({x, batch.view(), got, rank}).ok());
      EXPECT_TRUE(SameBits(got, want));
      ASSERT_TRUE(be.MlaAttention({q, want, 0.1f, batch.view(), nullptr, out}).ok());
      EXPECT_TRUE(SameBits(out, y));
      SelectCase chosen(rows, 40);
      ASSERT_TRUE(be.IndexSelect({iq, iw, 1.0f, keys, batch.view(), chosen.view()}).ok());
      ExpectSameSelection(chosen, selected, rows);
    });
  }
}

TEST(Fp8PoolTest, PublishedRowsHaveTheirPublishedSizes) {
  EXPECT_EQ(KeyRowElements(Dtype::kU8, 576, 512), 656);
  EXPECT_EQ(KeyRowElements(Dtype::kU8, 128, 128), 132);
  EXPECT_EQ(KeyRowElements(Dtype::kF8E4M3, 576, 512), 576);
}

}  // namespace
}  // namespace quern::backend
