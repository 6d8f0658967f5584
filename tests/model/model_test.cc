// "Same request, same tokens" at the level of the forward pass: for each stored layout, the CPU
// backend equals the reference bit for bit, and a row's logits do not depend on chunks, threads or
// what else is in the batch.
#include <gtest/gtest.h>

#include "quern/backend/cpu/cpu_backend.h"
#include "quern/backend/ref/ref_backend.h"
#include "quern/testing/checkpoint_writer.h"
#include "quern/testing/model_runner.h"

namespace quern {
namespace {

using quern::testing::MakeTokens;
using quern::testing::ModelRunner;

struct Case {
  const char* preset;
  testing::Layout layout;
  const char* name;
  model::ComputeOptions compute = {};
};

std::unique_ptr<model::Model> Load(const std::string& path, backend::Backend& be,
                                   const model::ComputeOptions& compute = {}) {
  model::LoadOptions options;
  options.compute = compute;
  std::vector<std::string> warnings;
  auto model = model::LoadModel(path, be, options, warnings);
  QUERN_CHECK(model.ok(), "{}", model.status().ToString());
  return std::move(model).value();
}

class ModelTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "model_test_" + GetParam().name;
    testing::CheckpointSpec spec;
    spec.config = *testing::PresetConfig(GetParam().preset);
    spec.layout = GetParam().layout;
    const Status written = testing::WriteCheckpoint(path_, spec);
    ASSERT_TRUE(written.ok()) << written.ToString();
    cpu_ = backend::CreateCpuBackend(2);
    model_ = Load(path_, *cpu_, GetParam().compute);
    // Past index_topk (16 in the presets), over two pages.
    tokens_ = MakeTokens(90, model_->config().vocab_size, 7);
  }

  std::string path_;
  std::unique_ptr<backend::Backend> cpu_;
  std::unique_ptr<model::Model> model_;
  std::vector<int32_t> tokens_;
};

TEST_P(ModelTest, CpuEqualsReferenceBitForBit) {
  const auto ref = backend::CreateRefBackend();
  const auto ref_model = Load(path_, *ref, GetParam().compute);
  EXPECT_EQ(ModelRunner(*model_, 4).Run(tokens_, 90), ModelRunner(*ref_model, 4).Run(tokens_, 90));
}

TEST_P(ModelTest, ChunksDoNotMatter) {
  const std::vector<float> whole = ModelRunner(*model_, 4).Run(tokens_, 90);
  for (int64_t chunk : {1, 7, 16, 17, 64})
    EXPECT_EQ(ModelRunner(*model_, 4).Run(tokens_, chunk), whole) << chunk;
}

TEST_P(ModelTest, ThreadsDoNotMatter) {
  const std::vector<float> two = ModelRunner(*model_, 4).Run(tokens_, 30);
  for (int threads : {1, 3}) {
    const auto be = backend::CreateCpuBackend(threads);
    EXPECT_EQ(ModelRunner(*Load(path_, *be, GetParam().compute), 4).Run(tokens_, 30), two)
        << threads;
  }
}

TEST_P(ModelTest, NeighboursInTheBatchDoNotMatter) {
  const int64_t vocab = model_->config().vocab_size;
  const std::vector<std::vector<int32_t>> sequences = {
      MakeTokens(3, vocab, 1), MakeTokens(70, vocab, 2), MakeTokens(1, vocab, 3),
      MakeTokens(17, vocab, 4)};
  const auto together = ModelRunner(*model_, 8).RunTogether(sequences);
  for (size_t i = 0; i < sequences.size(); ++i) {
    EXPECT_EQ(ModelRunner(*model_, 8).Run(sequences[i], 100), together[i]) << "sequence " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, ModelTest,
    ::testing::Values(Case{"tiny-dsa", testing::Layout::kF32, "dsa_f32"},
                      Case{"tiny-dsa", testing::Layout::kBf16, "dsa_bf16"},
                      Case{"tiny-dsa", testing::Layout::kFp8Block, "dsa_fp8_block"},
                      Case{"tiny-dsa", testing::Layout::kQuarkMxfp4, "dsa_quark_mxfp4"},
                      Case{"tiny-dsa",
                           testing::Layout::kQuarkMxfp4,
                           "dsa_quark_mxfp4_bf16",
                           {.expert_activations = model::ExpertActivations::kBf16}},
                      Case{"tiny-dsa",
                           testing::Layout::kQuarkMxfp4,
                           "dsa_quark_mxfp4_int8",
                           {.dense_format = model::DenseFormat::kInt8}},
                      Case{"tiny-lite",
                           testing::Layout::kBf16,
                           "lite_bf16_fp8",
                           {.dense_format = model::DenseFormat::kFp8}},
                      Case{"tiny-dsa", testing::Layout::kModeloptNvfp4, "dsa_modelopt_nvfp4"},
                      Case{"tiny-edge", testing::Layout::kFp8Block, "edge_fp8_block"},
                      Case{"tiny-lite", testing::Layout::kBf16, "lite_bf16"},
                      Case{"tiny-lite", testing::Layout::kF16, "lite_f16"}),
    [](const auto& test) { return std::string(test.param.name); });

std::vector<float> LogitsOf(testing::Layout layout, backend::Backend& be) {
  const std::string path =
      ::testing::TempDir() + "model_test_every_" + std::string(testing::LayoutName(layout));
  testing::CheckpointSpec spec;
  spec.config = *testing::PresetConfig("tiny-dsa");
  spec.layout = layout;
  const Status written = testing::WriteCheckpoint(path, spec);
  QUERN_CHECK(written.ok(), "{}", written.ToString());
  const auto model = Load(path, be);
  return ModelRunner(*model, 1).Run(MakeTokens(24, model->config().vocab_size, 3), 24);
}

TEST(Layouts, EveryOneLoadsAndEqualsTheReference) {
  const auto cpu = backend::CreateCpuBackend(2);
  const auto ref = backend::CreateRefBackend();
  for (testing::Layout layout : testing::AllLayouts()) {
    EXPECT_EQ(LogitsOf(layout, *cpu), LogitsOf(layout, *ref)) << testing::LayoutName(layout);
  }
}

// The same numbers under other names and in another arrangement are the same model.
TEST(Layouts, ArrangementDoesNotMatter) {
  const auto cpu = backend::CreateCpuBackend(2);
  EXPECT_EQ(LogitsOf(testing::Layout::kFusedBf16, *cpu), LogitsOf(testing::Layout::kBf16, *cpu));
  EXPECT_EQ(LogitsOf(testing::Layout::kCtMxfp4, *cpu),
            LogitsOf(testing::Layout::kQuarkMxfp4, *cpu));
  EXPECT_EQ(LogitsOf(testing::Layout::kCtNvfp4, *cpu),
            LogitsOf(testing::Layout::kModeloptNvfp4, *cpu));
}

TEST(Model, RefusesRowsOutsideItsTables) {
  const std::string path = ::testing::TempDir() + "model_test_rows";
  testing::CheckpointSpec spec;
  spec.config = *testing::PresetConfig("tiny-lite");
  ASSERT_TRUE(testing::WriteCheckpoint(path, spec).ok());
  const auto be = backend::CreateCpuBackend(1);
  const auto model = Load(path, *be);
  const auto kv = *cache::KvCache::Create(*be, model::MakeKvLayout(model->config()), 1);
  std::vector<float> logits;
  model::StepBatch batch{
      .tokens = {99999}, .positions = {0}, .sequences = {0}, .page_tables = {0}, .max_pages = 1};
  EXPECT_NE(model->Forward(batch, kv->view(), logits).message().find("99999"), std::string::npos);
  batch.tokens = {1};
  batch.positions = {64};
  EXPECT_EQ(model->Forward(batch, kv->view(), logits).code(), StatusCode::kInvalidArgument);
}

TEST(Model, LoadingReportsProgressUpToTheTotal) {
  const std::string path = ::testing::TempDir() + "model_test_progress";
  testing::CheckpointSpec spec;
  spec.config = *testing::PresetConfig("tiny-dsa");
  ASSERT_TRUE(testing::WriteCheckpoint(path, spec).ok());
  const auto be = backend::CreateCpuBackend(1);
  std::vector<std::string> warnings;
  uint64_t last = 0, total = 0;
  const auto progress = [&](uint64_t done, uint64_t all) {
    EXPECT_GE(done, last);
    last = done;
    total = all;
  };
  ASSERT_TRUE(model::LoadModel(path, *be, {.progress = progress}, warnings).ok());
  EXPECT_GT(total, 0u);
  EXPECT_EQ(last, total);
}

}  // namespace
}  // namespace quern
