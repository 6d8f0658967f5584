#include "quern/testing/checkpoint_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "quern/base/file.h"
#include "quern/checkpoint/checkpoint.h"
#include "quern/numerics/bf16.h"

namespace quern::testing {
namespace {

namespace fs = std::filesystem;
using checkpoint::Checkpoint;
using checkpoint::Problems;

std::string NewDir(const std::string& name) {
  const std::string dir = ::testing::TempDir() + "checkpoint_writer_" + name;
  fs::remove_all(dir);
  return dir;
}

CheckpointSpec Spec(const std::string& preset, Layout layout) {
  CheckpointSpec spec;
  spec.config = *PresetConfig(preset);
  spec.layout = layout;
  return spec;
}

std::unique_ptr<Checkpoint> OpenClean(const std::string& dir) {
  Problems problems;
  auto opened = Checkpoint::Open(dir, problems);
  EXPECT_TRUE(problems.errors().empty()) << problems.ToStatus(dir).message();
  EXPECT_TRUE(problems.warnings().empty()) << problems.warnings()[0];
  return std::move(opened).value();
}

TEST(CheckpointWriter, EveryLayoutOpensWithoutProblems) {
  // The edge preset in all layouts; the others, whose sizes are rounder, in one per way of storing.
  const std::vector<Layout> some = {Layout::kF32, Layout::kFp8Block, Layout::kQuarkMxfp4,
                                    Layout::kModeloptNvfp4, Layout::kGptOss};
  for (const char* preset : {"tiny-dsa", "tiny-lite", "tiny-edge"}) {
    for (Layout layout : std::string(preset) == "tiny-edge" ? AllLayouts() : some) {
      SCOPED_TRACE(std::string(preset) + " " + std::string(LayoutName(layout)));
      const std::string dir = NewDir("layouts");
      ASSERT_TRUE(WriteCheckpoint(dir, Spec(preset, layout)).ok());
      const auto checkpoint = OpenClean(dir);
      Problems problems;
      const auto config = checkpoint::ParseModelConfig(checkpoint->config_json(), problems);
      EXPECT_TRUE(problems.errors().empty());
      EXPECT_EQ(config.quantization.is_null(), QuantizationConfig(config, layout).is_null());
    }
  }
}

TEST(CheckpointWriter, SameSpecSameBytes) {
  const std::string a = NewDir("same_a"), b = NewDir("same_b"), c = NewDir("same_c");
  CheckpointSpec spec = Spec("tiny-dsa", Layout::kQuarkMxfp4);
  ASSERT_TRUE(WriteCheckpoint(a, spec).ok());
  ASSERT_TRUE(WriteCheckpoint(b, spec).ok());
  spec.weights.seed = 2;
  ASSERT_TRUE(WriteCheckpoint(c, spec).ok());
  const auto weights = [](const std::string& dir) { return *ReadFile(dir + "/model.safetensors"); };
  EXPECT_EQ(weights(a), weights(b));
  EXPECT_NE(weights(a), weights(c));
}

TEST(CheckpointWriter, ShardsHoldTheSameTensors) {
  const std::string one = NewDir("one"), five = NewDir("five");
  CheckpointSpec spec = Spec("tiny-dsa", Layout::kFp8Block);
  ASSERT_TRUE(WriteCheckpoint(one, spec).ok());
  spec.num_shards = 5;
  ASSERT_TRUE(WriteCheckpoint(five, spec).ok());
  const auto a = OpenClean(one), b = OpenClean(five);
  EXPECT_EQ(b->shards().size(), 5u);
  ASSERT_EQ(a->tensors().size(), b->tensors().size());
  for (size_t i = 0; i < a->tensors().size(); ++i) {
    const auto& x = a->tensors()[i];
    const auto& y = b->tensors()[i];
    ASSERT_EQ(x.name, y.name);
    ASSERT_EQ(x.shape, y.shape);
    ASSERT_TRUE(std::ranges::equal(a->Bytes(x), b->Bytes(y))) << x.name;
  }
}

TEST(CheckpointWriter, ReplacesAnEarlierCheckpoint) {
  const std::string dir = NewDir("replace");
  CheckpointSpec spec = Spec("tiny-dsa", Layout::kBf16);
  spec.num_shards = 5;
  ASSERT_TRUE(WriteCheckpoint(dir, spec).ok());
  spec.num_shards = 1;
  ASSERT_TRUE(WriteCheckpoint(dir, spec).ok());
  EXPECT_EQ(OpenClean(dir)->shards().size(), 1u);
}

TEST(CheckpointWriter, StoresTheMasterWeights) {
  const std::string dir = NewDir("master");
  CheckpointSpec spec = Spec("tiny-dsa", Layout::kBf16);
  ASSERT_TRUE(WriteCheckpoint(dir, spec).ok());
  const auto checkpoint = OpenClean(dir);
  const auto* tensor = checkpoint->Find("model.layers.1.mlp.experts.3.up_proj.weight");
  ASSERT_NE(tensor, nullptr);
  const auto master = MasterWeights(spec.weights, tensor->name, tensor->shape);
  const auto* stored = reinterpret_cast<const uint16_t*>(checkpoint->Bytes(*tensor).data());
  for (size_t i = 0; i < master.size(); ++i) ASSERT_EQ(stored[i], F32ToBf16(master[i])) << i;
}

// gpt-oss files alternate gate and up rows; transformers' fused form puts gate rows first.
TEST(CheckpointWriter, FusedExpertsHaveTheRowOrderOfTheirDialect) {
  const auto bytes_of = [](Layout layout, const std::string& suffix, int64_t stacked_row,
                           int64_t row_bytes) {
    const std::string dir = NewDir("fused");
    EXPECT_TRUE(WriteCheckpoint(dir, Spec("tiny-dsa", layout)).ok());
    const auto checkpoint = OpenClean(dir);
    const auto* tensor = checkpoint->Find("model.layers.1.mlp.experts." + suffix);
    EXPECT_NE(tensor, nullptr);
    const auto bytes = checkpoint->Bytes(*tensor).subspan(stacked_row * row_bytes, row_bytes);
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  const RandomWeights random;
  const auto row_of = [&random](const char* proj, int64_t expert, int64_t row, Encoding encoding) {
    const auto all = MasterWeights(
        random, fmt::format("model.layers.1.mlp.experts.{}.{}.weight", expert, proj), {64, 128});
    const std::vector<float> values(all.begin() + row * 128, all.begin() + (row + 1) * 128);
    return EncodeWeights(encoding, values, 1, 128)[0];
  };
  // Expert 2 starts at stacked row 2 * 2 * 64.
  EXPECT_EQ(bytes_of(Layout::kGptOss, "gate_up_proj_blocks", 256 + 6, 64),
            row_of("gate_proj", 2, 3, Encoding::kMxfp4));
  EXPECT_EQ(bytes_of(Layout::kGptOss, "gate_up_proj_blocks", 256 + 7, 64),
            row_of("up_proj", 2, 3, Encoding::kMxfp4));
  EXPECT_EQ(bytes_of(Layout::kFusedBf16, "gate_up_proj", 256 + 3, 256),
            row_of("gate_proj", 2, 3, Encoding::kBf16));
  EXPECT_EQ(bytes_of(Layout::kFusedBf16, "gate_up_proj", 256 + 64 + 3, 256),
            row_of("up_proj", 2, 3, Encoding::kBf16));
}

// Full size, as holes: names, counts and sizes of the published files; hardly any disk.
TEST(CheckpointWriter, SparseGlm52HasThePublishedNumbers) {
  const struct {
    Layout layout;
    size_t num_tensors;
    uint64_t bytes;  // 0: not published
  } rows[] = {{Layout::kBf16, 59585, 1'506'659'919'872},
              {Layout::kFp8Block, 118629, 755'617'140'416},
              // Every trunk expert leaf gains a scale: 75 layers x 257 experts x 3.
              {Layout::kQuarkMxfp4, 59585 + 75 * 257 * 3, 0}};
  for (const auto& row : rows) {
    SCOPED_TRACE(LayoutName(row.layout));
    const std::string dir = NewDir("full");
    CheckpointSpec spec = Spec("glm-5.2", row.layout);
    spec.sparse = true;
    spec.num_shards = TypicalShards("glm-5.2", row.layout);
    ASSERT_TRUE(WriteCheckpoint(dir, spec).ok());
    const auto checkpoint = OpenClean(dir);
    EXPECT_EQ(checkpoint->shards().size(), static_cast<size_t>(spec.num_shards));
    EXPECT_EQ(checkpoint->tensors().size(), row.num_tensors);
    if (row.bytes != 0) {
      EXPECT_EQ(checkpoint->total_bytes(), row.bytes);
    }
    fs::remove_all(dir);
  }
}

TEST(CheckpointWriter, QuarkListsEveryMtpLeaf) {
  Problems problems;
  const auto config = checkpoint::ParseModelConfig(*PresetConfig("glm-5.2"), problems);
  const Json exclude = QuantizationConfig(config, Layout::kQuarkMxfp4)["exclude"];
  std::set<std::string> names;
  for (const Json& entry : exclude) names.insert(entry.get<std::string>());
  for (const char* leaf :
       {"lm_head", "model.layers.78.eh_proj", "model.layers.78.mlp.experts.255.down_proj",
        "model.layers.78.mlp.shared_experts.gate_proj", "model.layers.78.self_attn.indexer.wk",
        "model.layers.0.mlp.up_proj", "model.layers.40.self_attn.kv_b_proj"}) {
    EXPECT_TRUE(names.count(leaf)) << leaf;
  }
  EXPECT_FALSE(names.count("model.layers.77.mlp.shared_experts.gate_proj"));
}

TEST(CheckpointWriter, RefusesSizesTheLayoutCannotStore) {
  CheckpointSpec spec = Spec("tiny-dsa", Layout::kQuarkMxfp4);
  spec.config["moe_intermediate_size"] = 48;
  const Status status = WriteCheckpoint(NewDir("refuse"), spec);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("want a multiple of 32"), std::string::npos) << status.message();
}

TEST(RandomWeights, AreNearlyNormal) {
  double sum = 0, squares = 0;
  constexpr int kCount = 100000;
  for (uint64_t i = 0; i < kCount; ++i) {
    const double x = NormalAt(12345, i);
    ASSERT_LE(std::fabs(x), 3.4642);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kCount, 0.0, 0.02);
  EXPECT_NEAR(squares / kCount, 1.0, 0.02);
}

TEST(RandomWeights, RouterBiasHasAnOffset) {
  RandomWeights random;
  random.router_bias_offset = 34.5f;
  random.router_bias_spread = 0.14f;
  for (float bias :
       MasterWeights(random, "model.layers.3.mlp.gate.e_score_correction_bias", {256})) {
    EXPECT_NEAR(bias, 34.5f, 0.5f);
  }
}

}  // namespace
}  // namespace quern::testing
