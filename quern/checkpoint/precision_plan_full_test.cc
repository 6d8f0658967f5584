// GLM-5.2 at full size, as sparse files: every tensor resolved, in little time and memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "quern/checkpoint/precision_plan.h"
#include "quern/model/expected_tensors.h"
#include "quern/testing/checkpoint_writer.h"

namespace quern::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Layout;
using ::testing::SizeIs;

constexpr size_t kWeights = 59'585;

// Sanitizers keep shadow memory and take their time: then only the answers are checked.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMeasure = false;
#else
constexpr bool kMeasure = true;
#endif

std::string WriteFull(Layout layout) {
  const std::string dir =
      ::testing::TempDir() + "glm52_" + std::string(testing::LayoutName(layout));
  std::filesystem::remove_all(dir);
  testing::CheckpointSpec spec;
  spec.config = *testing::PresetConfig("glm-5.2");
  spec.layout = layout;
  spec.num_shards = testing::TypicalShards("glm-5.2", layout);
  spec.sparse = true;
  const Status written = testing::WriteCheckpoint(dir, spec);
  EXPECT_TRUE(written.ok()) << written.message();
  return dir;
}

struct Resolved {
  std::unique_ptr<Checkpoint> checkpoint;
  PrecisionPlan plan;
  Problems problems;
  double seconds = 0;
};

Resolved ResolveFull(const std::string& dir) {
  Resolved r;
  const auto start = std::chrono::steady_clock::now();
  auto opened = Checkpoint::Open(dir, r.problems);
  EXPECT_TRUE(opened.ok());
  if (!opened.ok()) return r;
  r.checkpoint = std::move(opened).value();
  const ModelConfig config = ParseModelConfig(r.checkpoint->config_json(), r.problems);
  r.plan =
      ResolvePrecisionPlan(*r.checkpoint, config, model::ExpectedTensors(config), {}, r.problems);
  r.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return r;
}

void ExpectAllResolved(Layout layout, size_t num_stored) {
  const std::string dir = WriteFull(layout);
  const Resolved r = ResolveFull(dir);
  EXPECT_THAT(r.problems.errors(), IsEmpty());
  ASSERT_NE(r.checkpoint, nullptr);
  EXPECT_EQ(r.checkpoint->tensors().size(), num_stored);
  ASSERT_EQ(r.plan.tensors.size(), kWeights);
  EXPECT_EQ(r.plan.num_stored_used, static_cast<int64_t>(num_stored));
  uint64_t stored = 0;
  for (const ResolvedTensor& tensor : r.plan.tensors) {
    ASSERT_NE(tensor.weight, nullptr) << tensor.expected.name;
    ASSERT_FALSE(tensor.rule.empty());
    ASSERT_FALSE(tensor.signature.empty());
    stored += tensor.stored_bytes;
    if (layout == Layout::kQuarkMxfp4 && tensor.expected.layer == 78 &&
        tensor.expected.shape.size() == 2) {
      ASSERT_EQ(tensor.format, WeightFormat::kBf16) << tensor.expected.name;
    }
  }
  EXPECT_EQ(stored, r.checkpoint->total_bytes());
  if (kMeasure) {
    EXPECT_LT(r.seconds, 5.0);
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    EXPECT_LT(usage.ru_maxrss, 500 * 1000);  // kB; writing the files counts too
  }
  std::filesystem::remove_all(dir);
}

TEST(FullSizePlan, Bf16) { ExpectAllResolved(Layout::kBf16, kWeights); }
TEST(FullSizePlan, OfficialFp8) { ExpectAllResolved(Layout::kFp8Block, 118'629); }
TEST(FullSizePlan, QuarkMxfp4) {
  // 75 layers x 257 experts x 3 matrices have a scale each.
  ExpectAllResolved(Layout::kQuarkMxfp4, kWeights + 75 * 257 * 3);
}

TEST(FullSizePlan, ARenamedEntryOfLayer78IsAnError) {
  const std::string dir = WriteFull(Layout::kQuarkMxfp4);
  const std::string path = dir + "/config.json";
  Json config = *ReadJsonFile(path);
  const std::string module = "model.layers.78.mlp.experts.131.down_proj";
  bool renamed = false;
  for (Json& entry : config["quantization_config"]["exclude"]) {
    if (entry != module) continue;
    entry = "model.layers.78.mlp.experts.131.down_projection";
    renamed = true;
  }
  ASSERT_TRUE(renamed);
  std::ofstream(path) << DumpJson(config);
  const Resolved r = ResolveFull(dir);
  EXPECT_THAT(
      r.problems.errors(),
      ElementsAre(AllOf(HasSubstr(module + ".weight"),
                        HasSubstr("the rule says mxfp4 (global_quant_config: fp4 per_group 32)"),
                        HasSubstr("the file holds bf16 (BF16 [6144, 2048])"))));
  EXPECT_THAT(r.problems.warnings(), SizeIs(1));
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace quern::checkpoint
