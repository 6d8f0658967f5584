#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "quern/base/json.h"
#include "quern/cli/inspect_report.h"
#include "quern/testing/checkpoint_writer.h"

namespace quern::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Layout;
using ::testing::Not;
using ::testing::SizeIs;

const ChooseCompute kChoose = [](const checkpoint::ResolvedTensor& tensor) {
  return backend::ComputeChoice{
      .compute_format = std::string(WeightFormatName(tensor.format)) + " x bf16",
      .kernel = "gemm",
      .bytes_per_weight = 2};
};

std::string WriteModel(Layout layout) {
  const std::string dir = ::testing::TempDir() + "inspect_test";
  std::filesystem::remove_all(dir);
  testing::CheckpointSpec spec;
  spec.config = *testing::PresetConfig("tiny-dsa");
  spec.layout = layout;
  EXPECT_TRUE(testing::WriteCheckpoint(dir, spec).ok());
  return dir;
}

// What `print` writes.
template <typename Print>
std::string Capture(const Print& print) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  print(out);
  std::fclose(out);
  std::string result(text, size);
  std::free(text);
  return result;
}

TEST(InspectReport, GroupsSumToTheFile) {
  const InspectReport report =
      MakeInspectReport({.model = WriteModel(Layout::kQuarkMxfp4), .memory_gb = 1}, kChoose);
  EXPECT_THAT(report.problems.errors(), IsEmpty());
  uint64_t stored = 0, memory = 0;
  int64_t tensors = 0;
  for (const InspectGroup& group : report.groups) {
    stored += group.stored_bytes;
    memory += group.memory_bytes;
    tensors += group.num_tensors;
    EXPECT_FALSE(group.rule.empty());
  }
  EXPECT_EQ(stored, report.checkpoint->total_bytes());
  EXPECT_EQ(memory, report.memory.weight_bytes);
  EXPECT_EQ(tensors, static_cast<int64_t>(report.plan.tensors.size()));
}

TEST(InspectReport, MemoryPlanCountsLatentsEverywhereAndIndexKeysOnFullLayers) {
  const InspectReport report =
      MakeInspectReport({.model = WriteModel(Layout::kBf16), .memory_gb = 1}, kChoose);
  const checkpoint::ModelConfig& c = report.config;
  const InspectMemory& m = report.memory;
  int64_t full = 0;
  for (const auto type : c.indexer_types) full += type == checkpoint::IndexerType::kFull;
  EXPECT_EQ(m.latent_layers, c.num_layers + 1);
  EXPECT_EQ(m.index_layers, full);
  EXPECT_LT(full, m.latent_layers);
  EXPECT_EQ(m.kv_bytes_per_token, 2 * (m.latent_layers * (c.kv_lora_rank + c.qk_rope_head_dim) +
                                       full * c.index_head_dim));
  EXPECT_EQ(m.tokens_that_fit, static_cast<int64_t>(1'000'000'000 - 50'000'000 - m.weight_bytes) /
                                   m.kv_bytes_per_token);
  const InspectReport small =
      MakeInspectReport({.model = report.path, .memory_gb = 0.001}, kChoose);
  EXPECT_EQ(small.memory.tokens_that_fit, 0);
  EXPECT_THAT(Capture([&](std::FILE* out) { PrintInspectText(small, {}, kChoose, out); }),
              HasSubstr("the weights need"));
}

TEST(InspectReport, TextNamesFormatRuleAndKernel) {
  const InspectReport report =
      MakeInspectReport({.model = WriteModel(Layout::kQuarkMxfp4)}, kChoose);
  const std::string text =
      Capture([&](std::FILE* out) { PrintInspectText(report, {}, kChoose, out); });
  EXPECT_THAT(text, AllOf(HasSubstr("dialect  quark"), HasSubstr("routed experts"),
                          HasSubstr("mxfp4 x bf16"), HasSubstr("gemm"),
                          HasSubstr("global_quant_config: fp4 per_group 32"),
                          HasSubstr("all resolved"), HasSubstr("Notes (1)")));
  EXPECT_THAT(text, Not(HasSubstr("model.layers.2.mlp.experts.0.up_proj.weight")));
  const std::string all =
      Capture([&](std::FILE* out) { PrintInspectText(report, {.all = true}, kChoose, out); });
  EXPECT_THAT(all, HasSubstr("model.layers.2.mlp.experts.0.up_proj.weight"));
}

TEST(InspectReport, JsonHoldsEveryTensor) {
  const InspectReport report = MakeInspectReport({.model = WriteModel(Layout::kFp8Block)}, kChoose);
  const std::string text = Capture([&](std::FILE* out) { PrintInspectJson(report, kChoose, out); });
  const Result<Json> json = ParseJson(text);
  ASSERT_TRUE(json.ok()) << json.status().message();
  EXPECT_EQ((*json)["ok"], true);
  EXPECT_EQ((*json)["dialect"], "fp8 (block 128x128)");
  EXPECT_THAT((*json)["tensors"], SizeIs(report.plan.tensors.size()));
  EXPECT_THAT((*json)["groups"], SizeIs(report.groups.size()));
  EXPECT_EQ((*json)["memory"]["kv_bytes_per_token"], report.memory.kv_bytes_per_token);
  EXPECT_THAT((*json)["warnings"], SizeIs(1));  // the list's "indexers_proj"
}

TEST(InspectReport, StrictTurnsWarningsIntoErrors) {
  const std::string dir = WriteModel(Layout::kFp8Block);
  EXPECT_THAT(MakeInspectReport({.model = dir}, kChoose).problems.errors(), IsEmpty());
  const InspectReport strict = MakeInspectReport({.model = dir, .strict = true}, kChoose);
  EXPECT_THAT(strict.problems.errors(), SizeIs(1));
  EXPECT_THAT(strict.problems.warnings(), IsEmpty());
}

TEST(InspectReport, BrokenCheckpointsAreReportedNotCrashedOn) {
  const std::string dir = WriteModel(Layout::kBf16);
  std::ofstream(dir + "/config.json") << R"({"model_type": "llama"})";
  const InspectReport other = MakeInspectReport({.model = dir}, kChoose);
  EXPECT_THAT(other.problems.errors(), Not(IsEmpty()));
  EXPECT_FALSE(other.config_ok);
  const InspectReport nothing = MakeInspectReport({.model = dir + "/nowhere"}, kChoose);
  EXPECT_THAT(nothing.problems.errors(), Not(IsEmpty()));
  for (const InspectReport* report : {&other, &nothing}) {
    EXPECT_THAT(Capture([&](std::FILE* out) { PrintInspectText(*report, {}, kChoose, out); }),
                HasSubstr("Errors ("));
    const Result<Json> json =
        ParseJson(Capture([&](std::FILE* out) { PrintInspectJson(*report, kChoose, out); }));
    ASSERT_TRUE(json.ok());
    EXPECT_EQ((*json)["ok"], false);
  }
}

}  // namespace
}  // namespace quern::cli
