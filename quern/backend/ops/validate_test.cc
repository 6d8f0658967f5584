// Every op refuses tensors of a wrong type, rank or size, on every backend, by the name of the op
// and of the tensor, and touches nothing.
#include <functional>

#include "quern/backend/ops/op_testing.h"

namespace quern::backend {
namespace {

struct Field {
  const char* name;  // as messages say it
  Tensor* tensor;
  std::vector<int> dims;  // whose size other tensors or the op fix
};

void ExpectRefused(const std::string& op, const std::string& name, const Status& s,
                   const char* how) {
  EXPECT_EQ(s.code(), StatusCode::kInvalidArgument) << op << " " << name << " " << how;
  EXPECT_NE(s.message().find(op + ":"), std::string::npos) << how << ": " << s.message();
  EXPECT_NE(s.message().find(name), std::string::npos) << how << ": " << s.message();
}

// `run` succeeds as it is, and fails after each change of one field.
void ExpectChecked(const std::string& op, const std::vector<Field>& fields,
                   const std::function<Status()>& run) {
  const Status ok = run();
  ASSERT_TRUE(ok.ok()) << ok.ToString();
  for (const Field& f : fields) {
    const Tensor saved = *f.tensor;
    f.tensor->dtype = Dtype::kF16;  // no op takes it
    ExpectRefused(op, f.name, run(), "type");
    *f.tensor = saved;
    f.tensor->rank -= 1;
    ExpectRefused(op, f.name, run(), "rank");
    *f.tensor = Tensor();
    ExpectRefused(op, f.name, run(), "nothing");
    *f.tensor = saved;
    f.tensor->strides[static_cast<size_t>(saved.rank - 1)] = 2;
    ExpectRefused(op, f.name, run(), "stride");
    for (int d : f.dims) {
      for (int64_t delta : {-1, 1}) {
        *f.tensor = saved;
        f.tensor->dims[static_cast<size_t>(d)] += delta;
        ExpectRefused(op, "", run(), "size");
      }
    }
    *f.tensor = saved;
  }
}

class ValidateTest : public ::testing::TestWithParam<const char*> {
 protected:
  Backend& be() { return GetParam() == std::string("ref") ? Ref() : Cpu(2); }
  Tensor Make(Dtype type, std::initializer_list<int64_t> shape) {
    memory_.push_back(std::make_unique<TestTensor>(type, shape));
    for (int64_t i = 0; i < memory_.back()->size(); ++i) {
      if (type == Dtype::kI32) {
        memory_.back()->Int(i) = 0;
      } else {
        memory_.back()->Set(i, 0.5f);
      }
    }
    return *memory_.back();
  }
  BatchView Batch() {  // two rows of two sequences, each at position 0 of a page of its own
    BatchView b = {Make(Dtype::kI32, {2}), Make(Dtype::kI32, {2}), Make(Dtype::kI32, {2, 1})};
    static_cast<int32_t*>(b.sequences.data)[1] = 1;
    static_cast<int32_t*>(b.page_tables.data)[1] = 1;
    return b;
  }
  Routes MakeRoutes() {  // two tokens, two slots, four experts
    return {Make(Dtype::kI32, {2, 2}), Make(Dtype::kF32, {2, 2}), Make(Dtype::kI32, {5}),
            Make(Dtype::kI32, {4}), Make(Dtype::kI32, {2, 2})};
  }
  StoredMatrix Stored(int64_t rows, int64_t cols) {
    Rng rng(1);
    stored_.push_back(
        std::make_unique<StoredCase>(MakeStored(WeightFormat::kBf16, rows, cols, rng)));
    return stored_.back()->matrix;
  }

 private:
  std::vector<std::unique_ptr<TestTensor>> memory_;
  std::vector<std::unique_ptr<StoredCase>> stored_;
};
INSTANTIATE_TEST_SUITE_P(, ValidateTest, ::testing::Values("ref", "cpu"),
                         [](const auto& param) { return std::string(param.param); });

TEST_P(ValidateTest, Norms) {
  RmsNormArgs rms{Make(Dtype::kBf16, {2, 8}), Make(Dtype::kF32, {8}), 1e-5f,
                  Make(Dtype::kBf16, {2, 8})};
  ExpectChecked("RmsNorm",
                {{"x", &rms.x, {0, 1}}, {"weight", &rms.weight, {0}}, {"y", &rms.y, {0, 1}}},
                [&] { return be().RmsNorm(rms); });
  LayerNormArgs layer{Make(Dtype::kF32, {2, 8}), Make(Dtype::kF32, {8}), Make(Dtype::kF32, {8}),
                      1e-5f, Make(Dtype::kBf16, {2, 8})};
  ExpectChecked("LayerNorm",
                {{"x", &layer.x, {0, 1}},
                 {"weight", &layer.weight, {0}},
                 {"bias", &layer.bias, {0}},
                 {"y", &layer.y, {0, 1}}},
                [&] { return be().LayerNorm(layer); });
  AddArgs add{Make(Dtype::kF32, {2, 8}), Make(Dtype::kF32, {2, 8})};
  ExpectChecked("Add", {{"x", &add.x, {0, 1}}, {"y", &add.y, {0, 1}}},
                [&] { return be().Add(add); });
}

TEST_P(ValidateTest, Products) {
  const StoredMatrix m = Stored(6, 8);
  const auto linear_w = be().LoadLinear(std::span(&m, 1), LoadAs::kStored).value();
  LinearArgs linear{Make(Dtype::kF32, {2, 8}), *linear_w, Make(Dtype::kF32, {2, 6})};
  ExpectChecked("Linear", {{"x", &linear.x, {0, 1}}, {"y", &linear.y, {0, 1}}},
                [&] { return be().Linear(linear); });
  const auto head_w = be().LoadHeads(m, 2, 3, 0, 2, false).value();
  HeadLinearArgs head{Make(Dtype::kF32, {2, 2, 8}), *head_w, Make(Dtype::kF32, {2, 2, 2})};
  ExpectChecked("HeadLinear", {{"x", &head.x, {0, 1, 2}}, {"y", &head.y, {0, 1, 2}}},
                [&] { return be().HeadLinear(head); });
  const auto table = be().LoadTable(m).value();
  EmbedArgs embed{*table, Make(Dtype::kI32, {2}), Make(Dtype::kF32, {2, 8})};
  ExpectChecked("Embed", {{"ids", &embed.ids, {0}}, {"y", &embed.y, {0, 1}}},
                [&] { return be().Embed(embed); });
}

TEST_P(ValidateTest, Ropes) {
  RopeTableArgs table{Make(Dtype::kI32, {2}), 1e4, 8, Make(Dtype::kF32, {2, 2, 4})};
  ExpectChecked("RopeTable", {{"positions", &table.positions, {0}}, {"out", &table.out, {0, 1, 2}}},
                [&] { return be().RopeTable(table); });
  for (int64_t dim : {0, -2, 7}) {
    table.dim = dim;
    ExpectRefused("RopeTable", "dim", be().RopeTable(table), "dim");
  }
  RopeArgs rope{Make(Dtype::kF32, {2, 3, 8}), table.out, true, Make(Dtype::kF32, {2, 3, 8})};
  ExpectChecked(
      "Rope",
      {{"x", &rope.x, {0, 1, 2}}, {"table", &rope.table, {0, 1, 2}}, {"y", &rope.y, {0, 1, 2}}},
      [&] { return be().Rope(rope); });
}

TEST_P(ValidateTest, Attention) {
  CacheWriteArgs write{Make(Dtype::kBf16, {2, 8}), Batch(), Make(Dtype::kBf16, {2, 64, 8})};
  ExpectChecked("CacheWrite",
                {{"rows", &write.rows, {0, 1}},
                 {"pool", &write.pool, {1, 2}},
                 {"positions", &write.batch.positions, {0}},
                 {"sequences", &write.batch.sequences, {0}},
                 {"page_tables", &write.batch.page_tables, {}}},
                [&] { return be().CacheWrite(write); });
  Selection selection{Make(Dtype::kI32, {2, 3}), Make(Dtype::kI32, {2})};
  IndexSelectArgs select{Make(Dtype::kF32, {2, 3, 8}),
                         Make(Dtype::kF32, {2, 3}),
                         1.0f,
                         Make(Dtype::kBf16, {2, 64, 8}),
                         Batch(),
                         selection};
  ExpectChecked("IndexSelect",
                {{"q", &select.q, {0, 1, 2}},
                 {"weights", &select.weights, {0, 1}},
                 {"keys", &select.keys, {1, 2}},
                 {"positions", &select.out.positions, {0}},
                 {"counts", &select.out.counts, {0}},
                 {"positions", &select.batch.positions, {0}},
                 {"sequences", &select.batch.sequences, {0}},
                 {"page_tables", &select.batch.page_tables, {}}},
                [&] { return be().IndexSelect(select); });
  MlaAttentionArgs attend{
      Make(Dtype::kF32, {2, 3, 8}), Make(Dtype::kBf16, {2, 64, 8}), 1.0f, Batch(), &selection,
      Make(Dtype::kF32, {2, 3, 6})};
  ExpectChecked("MlaAttention",
                {{"q", &attend.q, {0, 1, 2}},
                 {"cache", &attend.cache, {1, 2}},
                 {"y", &attend.y, {0, 1}},
                 {"selection", &selection.positions, {0}},
                 {"counts", &selection.counts, {0}},
                 {"positions", &attend.batch.positions, {0}}},
                [&] { return be().MlaAttention(attend); });
  attend.y = Make(Dtype::kF32, {2, 3, 9});
  ExpectRefused("MlaAttention", "rank", be().MlaAttention(attend), "rank over the row");
}

TEST_P(ValidateTest, Experts) {
  RouteArgs route{Make(Dtype::kF32, {2, 4}), Make(Dtype::kF32, {4}), true, 1.0f, MakeRoutes()};
  ExpectChecked("Route",
                {{"logits", &route.logits, {0, 1}},
                 {"bias", &route.bias, {0}},
                 {"experts", &route.out.experts, {0, 1}},
                 {"weights", &route.out.weights, {0, 1}},
                 {"offsets", &route.out.offsets, {0}},
                 {"tokens", &route.out.tokens, {0}},
                 {"row_of", &route.out.row_of, {0, 1}}},
                [&] { return be().Route(route); });
  GatherRowsArgs gather{Make(Dtype::kF32, {2, 8}), Make(Dtype::kI32, {4}),
                        Make(Dtype::kF32, {4, 8})};
  ExpectChecked("GatherRows",
                {{"x", &gather.x, {1}}, {"rows", &gather.rows, {0}}, {"y", &gather.y, {0, 1}}},
                [&] { return be().GatherRows(gather); });
  ScatterRowsArgs scatter{Make(Dtype::kF32, {4, 8}), Make(Dtype::kI32, {4}),
                          Make(Dtype::kF32, {6, 8})};
  ExpectChecked("ScatterRows",
                {{"x", &scatter.x, {0, 1}}, {"rows", &scatter.rows, {0}}, {"y", &scatter.y, {1}}},
                [&] { return be().ScatterRows(scatter); });
  const StoredMatrix m = Stored(6, 8);
  const std::vector<std::span<const StoredMatrix>> experts(4, std::span(&m, 1));
  const auto w = be().LoadExperts(experts, LoadAs::kStored).value();
  MoeGemmArgs gemm{Make(Dtype::kF32, {4, 8}), *w, route.out, Make(Dtype::kF32, {4, 6})};
  ExpectChecked("MoeGemm",
                {{"x", &gemm.x, {0, 1}},
                 {"offsets", &gemm.routes.offsets, {0}},
                 {"tokens", &gemm.routes.tokens, {0}},
                 {"y", &gemm.y, {0, 1}}},
                [&] { return be().MoeGemm(gemm); });
  SwiGluArgs swiglu{Make(Dtype::kF32, {2, 8}), Make(Dtype::kF32, {2, 4})};
  ExpectChecked("SwiGlu", {{"gate_up", &swiglu.gate_up, {0, 1}}, {"y", &swiglu.y, {0, 1}}},
                [&] { return be().SwiGlu(swiglu); });
  CombineArgs combine{Make(Dtype::kF32, {4, 8}), route.out, Make(Dtype::kF32, {2, 8})};
  ExpectChecked("Combine",
                {{"rows", &combine.rows, {0, 1}},
                 {"experts", &combine.routes.experts, {0, 1}},
                 {"weights", &combine.routes.weights, {0, 1}},
                 {"row_of", &combine.routes.row_of, {0, 1}},
                 {"y", &combine.y, {0, 1}}},
                [&] { return be().Combine(combine); });
}

TEST_P(ValidateTest, Loads) {
  const StoredMatrix a = Stored(6, 8), other = Stored(6, 9);
  const auto code = [](const auto& result) { return result.status().code(); };
  const StoredMatrix mixed[] = {a, other};
  EXPECT_EQ(code(be().LoadLinear({}, LoadAs::kStored)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(be().LoadLinear(mixed, LoadAs::kStored)), StatusCode::kInvalidArgument);
  StoredMatrix fp4 = a;
  fp4.format = WeightFormat::kMxfp4;  // 8 columns: not a whole group; and no scales
  EXPECT_EQ(code(be().LoadLinear(std::span(&fp4, 1), LoadAs::kStored)),
            StatusCode::kInvalidArgument);
  StoredMatrix fp8 = a;
  fp8.format = WeightFormat::kFp8Block;  // no scales, no blocks
  EXPECT_EQ(code(be().LoadLinear(std::span(&fp8, 1), LoadAs::kStored)),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code(be().LoadTable(fp8)), StatusCode::kInvalidArgument);

  EXPECT_EQ(code(be().LoadExperts({}, LoadAs::kStored)), StatusCode::kInvalidArgument);
  const std::vector<std::span<const StoredMatrix>> unlike = {std::span(&mixed[0], 1),
                                                             std::span(&mixed[1], 1)};
  EXPECT_EQ(code(be().LoadExperts(unlike, LoadAs::kStored)), StatusCode::kInvalidArgument);
  const std::vector<std::span<const StoredMatrix>> empty(2);
  EXPECT_EQ(code(be().LoadExperts(empty, LoadAs::kStored)), StatusCode::kInvalidArgument);

  EXPECT_TRUE(be().LoadHeads(a, 2, 3, 1, 2, false).ok());
  EXPECT_EQ(code(be().LoadHeads(a, 2, 3, 2, 2, false)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(be().LoadHeads(a, 3, 3, 0, 2, false)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(be().LoadHeads(a, 0, 3, 0, 2, false)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(be().LoadHeads(a, 2, 3, -1, 2, false)), StatusCode::kInvalidArgument);
}

TEST_P(ValidateTest, Memory) {
  EXPECT_EQ(be().Allocate(-1).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(be().Allocate(INT64_MAX / 2).status().code(), StatusCode::kResourceExhausted);
  const auto buffer = be().Allocate(0).value();
  EXPECT_EQ(buffer->bytes(), 0);
  const auto zeroed = be().Allocate(1000).value();
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(static_cast<char*>(zeroed->data())[i], 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(zeroed->data()) % 64, 0u);

  Tensor t(Dtype::kI32, {10, 5}, zeroed->data());
  std::vector<int32_t> in(50, 3), out(50);
  ASSERT_TRUE(be().CopyToDevice(in.data(), t).ok());
  ASSERT_TRUE(be().CopyToHost(t, out.data()).ok());
  EXPECT_EQ(in, out);
  EXPECT_EQ(be().CopyToHost(t.Columns(0, 2), out.data()).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(be().CopyToDevice(in.data(), t.Columns(0, 2)).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace quern::backend
