#include "quern/checkpoint/precision_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "quern/checkpoint/precision_plan_report.h"
#include "quern/checkpoint/precision_plan_test_util.h"

namespace quern::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Layout;
using ::testing::Not;
using ::testing::SizeIs;

constexpr PlanOptions kRead{.read_scales = true};

// How far decoded weights of a format may be from the numbers that were encoded, as a share of
// their norm.
double Bound(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return 1e-7;
    case WeightFormat::kF16:
      return 1e-3;
    case WeightFormat::kBf16:
      return 4e-3;
    case WeightFormat::kFp8Block:
    case WeightFormat::kFp8Channel:
    case WeightFormat::kFp8Tensor:
      return 0.05;
    case WeightFormat::kMxfp4:
    case WeightFormat::kNvfp4:
      return 0.2;
  }
  return 0;
}

// The right tensor, the right expert, the right half and the right scale: decoded rows are those
// that were written.
TEST(PrecisionPlan, EveryLayoutDecodesToTheWeightsThatWereWritten) {
  for (const char* preset : {"tiny-dsa", "tiny-lite", "tiny-edge"}) {
    for (const Layout layout : testing::AllLayouts()) {
      SCOPED_TRACE(std::string(preset) + " " + std::string(testing::LayoutName(layout)));
      const std::string dir = ::testing::TempDir() + "precision_plan_layouts";
      std::filesystem::remove_all(dir);
      testing::CheckpointSpec spec;
      spec.config = *testing::PresetConfig(preset);
      spec.layout = layout;
      ASSERT_TRUE(testing::WriteCheckpoint(dir, spec).ok());
      Problems problems;
      auto checkpoint = Checkpoint::Open(dir, problems);
      ASSERT_TRUE(checkpoint.ok());
      const ModelConfig config = ParseModelConfig((*checkpoint)->config_json(), problems);
      const PrecisionPlan plan = ResolvePrecisionPlan(
          **checkpoint, config, model::ExpectedTensors(config), kRead, problems);
      ASSERT_THAT(problems.errors(), IsEmpty());
      uint64_t stored = 0;
      for (const ResolvedTensor& tensor : plan.tensors) {
        ASSERT_NE(tensor.weight, nullptr) << tensor.expected.name;
        stored += tensor.stored_bytes;
        const std::vector<float> want =
            testing::MasterWeights(spec.weights, tensor.expected.name, tensor.expected.shape);
        const StoredMatrix& m = tensor.matrix;
        std::vector<float> row(static_cast<size_t>(m.cols));
        for (const int64_t r : {int64_t{0}, m.rows / 2, m.rows - 1}) {
          DecodeRow(m, r, row.data());
          double error = 0, norm = 0;
          for (int64_t c = 0; c < m.cols; ++c) {
            const double w = want[static_cast<size_t>(r * m.cols + c)];
            error += (row[static_cast<size_t>(c)] - w) * (row[static_cast<size_t>(c)] - w);
            norm += w * w;
          }
          ASSERT_LE(std::sqrt(error), Bound(tensor.format) * std::sqrt(norm) + 1e-7)
              << tensor.expected.name << " row " << r << ": " << tensor.signature;
        }
      }
      // Nothing of the file is left over but activation scales (one f32 each).
      EXPECT_LE((*checkpoint)->total_bytes() - stored, 4u * plan.tensors.size());
    }
  }
}

TEST(PrecisionPlan, FindsByName) {
  EditedCheckpoint edited(Layout::kBf16);
  Problems problems;
  const PrecisionPlan plan = edited.Resolve(problems);
  ASSERT_THAT(problems.errors(), IsEmpty());
  EXPECT_EQ(plan.dialect, "unquantized");
  EXPECT_EQ(plan.num_stored_used, static_cast<int64_t>(plan.tensors.size()));
  const ResolvedTensor* found = plan.Find("model.layers.3.mlp.experts.7.down_proj.weight");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->expected.name, "model.layers.3.mlp.experts.7.down_proj.weight");
  EXPECT_EQ(plan.Find("model.layers.3.mlp.experts.8.down_proj.weight"), nullptr);
  EXPECT_EQ(plan.Find(""), nullptr);
}

// The pitfall the plan is there for: a bf16 expert of the MTP layer that no entry lists.
TEST(PrecisionPlan, ARenamedExcludeEntryIsAnErrorWithTensorRuleAndSignature) {
  EditedCheckpoint edited(Layout::kQuarkMxfp4);
  const std::string listed = "model.layers.6.mlp.shared_experts.gate_proj";
  bool renamed = false;
  for (Json& entry : edited.quantization["exclude"]) {
    if (entry != listed) continue;
    entry = "model.decoder.mlp.shared_experts.gate_proj";
    renamed = true;
  }
  ASSERT_TRUE(renamed);
  Problems problems;
  edited.Resolve(problems);
  EXPECT_THAT(
      problems.errors(),
      ElementsAre(AllOf(HasSubstr(listed + ".weight: the rule says mxfp4 (global_quant_config: "
                                           "fp4 per_group 32), the file holds bf16 (BF16 ["),
                        HasSubstr("list \"" + listed + "\" in exclude"),
                        HasSubstr("--trust-signatures"))));
  EXPECT_THAT(problems.warnings(),
              ElementsAre(HasSubstr("\"model.decoder.mlp.shared_experts.gate_proj\"")));

  Problems trusted;
  const PrecisionPlan plan = edited.Resolve(trusted, {.trust_signatures = true});
  EXPECT_THAT(trusted.errors(), IsEmpty());
  EXPECT_THAT(trusted.warnings(), Contains(HasSubstr(listed + ".weight: the rule says mxfp4")));
  EXPECT_EQ(plan.Find(listed + ".weight")->format, WeightFormat::kBf16);
}

// Published NVFP4 files list nothing of their bf16 MTP layer: 30 and more tensors, a dozen errors.
TEST(PrecisionPlan, ManyDisagreementsOfAKindAreOneError) {
  EditedCheckpoint edited(Layout::kModeloptNvfp4);
  Json kept = Json::array();
  for (const Json& entry : edited.quantization["ignore"]) {
    if (entry != "model.layers.6*") kept.push_back(entry);
  }
  ASSERT_EQ(kept.size() + 1, edited.quantization["ignore"].size());
  edited.quantization["ignore"] = kept;
  Problems problems;
  edited.Resolve(problems);
  EXPECT_THAT(problems.errors(), SizeIs(4));  // eh_proj; gate, up, down of the experts
  EXPECT_THAT(problems.errors(),
              Contains(AllOf(
                  HasSubstr("model.layers.6.mlp.experts.0.gate_proj.weight: the rule says nvfp4"),
                  HasSubstr("(7 more like it; layer 6)"))));
}

TEST(PrecisionPlan, AQuantizedTensorThatAnEntryTakesOutIsAnError) {
  EditedCheckpoint edited(Layout::kQuarkMxfp4);
  edited.quantization["exclude"].push_back("model.layers.2.mlp.experts.3.up_proj");
  Problems problems;
  edited.Resolve(problems);
  EXPECT_THAT(problems.errors(),
              ElementsAre(AllOf(
                  HasSubstr("model.layers.2.mlp.experts.3.up_proj.weight: the rule says "
                            "unquantized (exclude["),
                  HasSubstr("the file holds mxfp4 (U8 ["), HasSubstr("take that entry out"))));
}

TEST(PrecisionPlan, ALostQuantizationConfigIsNamed) {
  EditedCheckpoint edited(Layout::kFp8Block);
  edited.quantization = nullptr;
  Problems problems;
  edited.Resolve(problems);
  EXPECT_THAT(problems.errors(), Not(IsEmpty()));
  EXPECT_THAT(problems.errors(), Each(HasSubstr("config.json has lost its quantization_config")));
}

TEST(PrecisionPlan, RefusedDialectsGiveOneErrorNotThousands) {
  EditedCheckpoint edited(Layout::kBf16);
  edited.quantization = {{"quant_method", "gptq"}, {"bits", 4}};
  Problems problems;
  edited.Resolve(problems);
  EXPECT_THAT(problems.errors(), ElementsAre(HasSubstr("quant_method \"gptq\" is not supported")));
}

TEST(PrecisionPlan, MissingUnexpectedAndMisshapenTensorsAreNamed) {
  EditedCheckpoint edited(Layout::kBf16);
  ASSERT_EQ(edited.Remove("model.layers.2.mlp.experts.5.up_proj"), 1u);
  ASSERT_EQ(edited.Remove("layers.4.input_layernorm"), 1u);
  edited.Get("model.layers.1.self_attn.o_proj.weight").shape = {64, 64};
  edited.Get("model.norm.weight").dtype = Dtype::kI32;
  edited.Get("model.layers.3.post_attention_layernorm.weight").shape = {64};
  edited.pieces.push_back({"model.layers.1.self_attn.q_a_proj.bias", Dtype::kBf16, {64}});
  edited.pieces.push_back({"vision.patch.weight", Dtype::kBf16, {8, 8}});
  Problems problems;
  edited.Resolve(problems);
  EXPECT_THAT(problems.errors(),
              ::testing::UnorderedElementsAre(
                  HasSubstr("model.layers.2.mlp.experts.5.up_proj.weight is missing, want ["),
                  HasSubstr("model.layers.4.input_layernorm.weight is missing, want [128]"),
                  AllOf(HasSubstr("model.layers.1.self_attn.o_proj.weight: holds BF16 [64, 64]: "
                                  "wrong shape: want ["),
                        HasSubstr("unquantized checkpoint")),
                  HasSubstr("model.norm.weight: holds I32 [128]: want BF16, F16 or F32"),
                  HasSubstr("model.layers.3.post_attention_layernorm.weight: holds BF16 [64]: "
                            "wrong shape: want [128]"),
                  HasSubstr("model.layers.1.self_attn.q_a_proj.bias: unexpected tensor, BF16 [64]"),
                  HasSubstr("vision.patch.weight: unexpected tensor")));
}

TEST(PrecisionPlan, MissingScalesAreNamed) {
  EditedCheckpoint edited(Layout::kQuarkMxfp4);
  ASSERT_EQ(edited.Remove("model.layers.2.mlp.experts.5.up_proj.weight_scale"), 1u);
  Problems problems;
  edited.Resolve(problems);
  EXPECT_THAT(
      problems.errors(),
      ElementsAre(AllOf(HasSubstr("model.layers.2.mlp.experts.5.up_proj.weight: holds U8 ["),
                        HasSubstr("packed codes without weight_scale"))));
}

TEST(PrecisionPlan, AnAbsentMtpLayerIsOneError) {
  EditedCheckpoint edited(Layout::kBf16);
  ASSERT_GT(edited.Remove("model.layers.6."), 20u);
  Problems problems;
  edited.Resolve(problems);
  EXPECT_THAT(
      problems.errors(),
      ElementsAre(AllOf(HasSubstr("MTP layer 6: config.json says num_nextn_predict_layers 1"),
                        HasSubstr("to 0"))));
}

TEST(PrecisionPlan, LayersTheConfigDoesNotHaveAreOneError) {
  EditedCheckpoint edited(Layout::kBf16);
  edited.config["num_nextn_predict_layers"] = 0;
  Problems problems;
  edited.Resolve(problems);
  EXPECT_THAT(
      problems.errors(),
      ElementsAre(AllOf(HasSubstr("tensors belong to layers 6, but config.json has layers 0-5"),
                        HasSubstr("num_nextn_predict_layers 0"))));
}

TEST(PrecisionPlan, IndexersOnTheWrongLayersAreNamedAsSuch) {
  EditedCheckpoint edited(Layout::kBf16);
  ASSERT_EQ(edited.config["indexer_types"][2], "full");
  ASSERT_EQ(edited.config["indexer_types"][3], "shared");
  std::swap(edited.config["indexer_types"][2], edited.config["indexer_types"][3]);
  Problems problems;
  edited.Resolve(problems);
  EXPECT_THAT(
      problems.errors(),
      ElementsAre(HasSubstr("indexer tensors are missing in layers 3, which own an indexer"),
                  HasSubstr("indexer tensors on the wrong layers: 5 in layers 2,")));
}

TEST(PrecisionPlan, HarmlessExtrasAreNotes) {
  EditedCheckpoint edited(Layout::kBf16);
  edited.pieces.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", Dtype::kF32, {8}});
  edited.pieces.push_back({"model.layers.0.self_attn.k_scale", Dtype::kF32, {}});
  edited.pieces.push_back({"model.layers.1.self_attn.kv_b_proj.v_scale", Dtype::kF32, {}});
  Problems problems;
  const PrecisionPlan plan = edited.Resolve(problems);
  EXPECT_THAT(problems.errors(), IsEmpty());
  EXPECT_THAT(problems.warnings(), IsEmpty());
  EXPECT_THAT(plan.notes, ElementsAre(HasSubstr("3 tensors are not used")));
}

TEST(PrecisionPlan, CopiesMustEqualTheirOriginal) {
  EditedCheckpoint edited(Layout::kBf16);
  testing::Piece copy = edited.Get("model.embed_tokens.weight");
  copy.name = "model.layers.6.embed_tokens.weight";
  edited.pieces.push_back(copy);
  testing::Piece head = edited.Get("lm_head.weight");
  head.name = "model.layers.6.shared_head.head.weight";
  edited.pieces.push_back(head);
  Problems headers;
  edited.Resolve(headers);
  EXPECT_THAT(headers.errors(), IsEmpty());
  EXPECT_THAT(headers.warnings(),
              ElementsAre(HasSubstr("should be a copy of model.embed_tokens.weight"),
                          HasSubstr("should be a copy of lm_head.weight")));
  Problems equal;
  edited.Resolve(equal, kRead);
  EXPECT_THAT(equal.errors(), IsEmpty());
  EXPECT_THAT(equal.warnings(), IsEmpty());
  edited.bytes[head.name] = std::string(static_cast<size_t>(head.bytes()), '\1');
  Problems different;
  edited.Resolve(different, kRead);
  EXPECT_THAT(different.errors(),
              ElementsAre(HasSubstr(head.name + " differs from lm_head.weight")));
}

TEST(PrecisionPlan, BadScalesAreFoundWhenRead) {
  struct Case {
    Layout layout;
    const char* tensor;
    std::string scale;
    const char* error;
  };
  const float nan = std::nanf(""), zero = 0;
  const auto f32 = [](float value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  const Case cases[] = {
      {Layout::kQuarkMxfp4, "model.layers.1.mlp.experts.0.up_proj.weight_scale", "\xFF",
       "E8M0 scale [0, 0] is 0xFF"},
      {Layout::kGptOss, "model.layers.1.mlp.experts.down_proj_scales", "\xFF",
       "E8M0 scale [0, 0] is 0xFF"},
      {Layout::kFp8Block, "model.layers.1.self_attn.o_proj.weight_scale_inv", f32(nan),
       "scale [0, 0] is nan"},
      {Layout::kQuarkFp8Tensor, "model.layers.1.self_attn.o_proj.weight_scale", f32(INFINITY),
       "scale [0, 0] is inf"},
      {Layout::kModeloptNvfp4, "model.layers.1.mlp.experts.0.up_proj.weight_scale", "\x7F",
       "E4M3 scale [0, 0] is NaN"},
      {Layout::kCtNvfp4, "model.layers.1.mlp.experts.0.up_proj.weight_global_scale", f32(zero),
       "the global scale comes to inf"},
  };
  for (const Case& c : cases) {
    EditedCheckpoint edited(c.layout);
    for (const testing::Piece& piece : edited.pieces) {
      if (piece.name.ends_with("weight_scale_2") || piece.name.ends_with("global_scale")) {
        edited.bytes[piece.name] = f32(1.0f);
      }
    }
    Problems clean;
    edited.Resolve(clean, kRead);
    EXPECT_THAT(clean.errors(), IsEmpty());
    std::string bytes = c.scale;
    bytes.resize(static_cast<size_t>(edited.Get(c.tensor).bytes()), '\0');
    edited.bytes[c.tensor] = bytes;
    Problems read, unread;
    edited.Resolve(read, kRead);
    EXPECT_THAT(read.errors(), ElementsAre(AllOf(HasSubstr(c.error), HasSubstr(c.tensor))));
    edited.Resolve(unread);
    EXPECT_THAT(unread.errors(), IsEmpty());
  }
}

TEST(PrecisionPlan, ScalesUnderQuarksInnerNameAreReadWithANote) {
  EditedCheckpoint edited(Layout::kQuarkMxfp4);
  edited.Get("model.layers.1.mlp.experts.0.up_proj.weight_scale").name =
      "model.layers.1.mlp.experts.0.up_proj.weight_quantizer.scale";
  Problems problems;
  const PrecisionPlan plan = edited.Resolve(problems);
  EXPECT_THAT(problems.errors(), IsEmpty());
  EXPECT_THAT(plan.notes, Contains(HasSubstr("1 scales are called weight_quantizer.scale")));
  EXPECT_EQ(plan.Find("model.layers.1.mlp.experts.0.up_proj.weight")->format, WeightFormat::kMxfp4);
}

TEST(PrecisionPlan, Bf16ScalesOfFp8AreConvertedWhenRead) {
  EditedCheckpoint edited(Layout::kCtFp8Channel);
  const std::string module = "model.layers.1.self_attn.o_proj";
  testing::Piece& scale = edited.Get(module + ".weight_scale");
  scale.dtype = Dtype::kBf16;
  std::string bytes;
  for (int64_t r = 0; r < scale.shape[0]; ++r) bytes += std::string("\x80\x3F", 2);  // 1.0
  edited.bytes[scale.name] = bytes;
  Problems problems;
  const PrecisionPlan unread = edited.Resolve(problems);
  EXPECT_EQ(unread.Find(module + ".weight")->matrix.scales, nullptr);
  const PrecisionPlan plan = edited.Resolve(problems, kRead);
  EXPECT_THAT(problems.errors(), IsEmpty());
  const StoredMatrix& m = plan.Find(module + ".weight")->matrix;
  EXPECT_EQ(ScaleAt(m, 0, 0), 1.0f);
  EXPECT_EQ(ScaleAt(m, m.rows - 1, m.cols - 1), 1.0f);
}

TEST(PrecisionPlan, ModeloptsOwnFileServesWhereConfigJsonSaysNothing) {
  EditedCheckpoint edited(Layout::kModeloptNvfp4);
  const Json ignore = edited.quantization["ignore"];
  edited.quantization = nullptr;
  edited.files["hf_quant_config.json"] =
      DumpJson({{"producer", {{"name", "modelopt"}}},
                {"quantization",
                 {{"quant_algo", "NVFP4"}, {"group_size", 16}, {"exclude_modules", ignore}}}});
  Problems problems;
  const PrecisionPlan plan = edited.Resolve(problems);
  EXPECT_THAT(problems.errors(), IsEmpty());
  EXPECT_EQ(plan.dialect, "modelopt (NVFP4)");
  edited.files["hf_quant_config.json"] = "{broken";
  Problems broken;
  edited.Resolve(broken);
  EXPECT_THAT(broken.errors(), Contains(HasSubstr("hf_quant_config.json")));
}

TEST(PrecisionPlan, ARouterBiasInBf16IsAWarning) {
  EditedCheckpoint edited(Layout::kBf16);
  for (testing::Piece& piece : edited.pieces) {
    if (piece.name.ends_with("e_score_correction_bias")) piece.dtype = Dtype::kBf16;
  }
  Problems problems;
  edited.Resolve(problems);
  EXPECT_THAT(problems.errors(), IsEmpty());
  EXPECT_THAT(problems.warnings(),
              ElementsAre(AllOf(
                  HasSubstr("model.layers.1.mlp.gate.e_score_correction_bias is stored as BF16"),
                  HasSubstr("5 more like it"))));
}

TEST(PrecisionPlan, NeverQuantizedTensorsMustNotBeQuantized) {
  EditedCheckpoint edited(Layout::kFp8Block);
  const std::string name = "model.layers.1.mlp.gate.weight";
  edited.Get(name).dtype = Dtype::kF8E4M3;
  edited.pieces.push_back({name + "_scale_inv", Dtype::kF32, {1, 1}});
  Problems problems;
  edited.Resolve(problems);
  EXPECT_THAT(problems.errors(), ElementsAre(AllOf(HasSubstr(name + ": stored as fp8_block"),
                                                   HasSubstr("never quantized"))));
}

TEST(PrecisionPlan, FusedExpertsOfAnotherShapeAreNamed) {
  EditedCheckpoint edited(Layout::kFusedBf16);
  testing::Piece& fused = edited.Get("model.layers.2.mlp.experts.gate_up_proj");
  ASSERT_THAT(fused.shape, SizeIs(3));
  fused.shape = {fused.shape[0], fused.shape[1] / 2, fused.shape[2] * 2};
  Problems problems;
  edited.Resolve(problems);
  EXPECT_THAT(problems.errors(),
              Each(HasSubstr("model.layers.2.mlp.experts.gate_up_proj holds BF16 [")));
  EXPECT_THAT(problems.errors(), SizeIs(1));
}

TEST(PrecisionPlan, FusedScalesWithoutElementsAreNamed) {
  EditedCheckpoint edited(Layout::kGptOss);
  const std::string name = "model.layers.2.mlp.experts.down_proj_scales";
  edited.Get(name).shape = {8, 128, int64_t{1} << 40, int64_t{1} << 22, 0};
  Problems problems;
  edited.Resolve(problems);
  EXPECT_THAT(problems.errors(), Contains(HasSubstr(name)));
}

// A fused tensor has one format; a rule that takes out one of its experts cannot be obeyed.
TEST(PrecisionPlan, ARuleForOneExpertOfAFusedTensorIsAnError) {
  EditedCheckpoint edited(Layout::kGptOss);
  edited.quantization["modules_to_not_convert"].push_back("model.layers.2.mlp.experts.3.up_proj");
  Problems problems;
  edited.Resolve(problems);
  EXPECT_THAT(
      problems.errors(),
      ElementsAre(
          AllOf(HasSubstr("model.layers.2.mlp.experts.3.up_proj.weight: the rule says unquantized"),
                HasSubstr("the file holds mxfp4"))));
}

TEST(PrecisionPlan, FusedAndSingleExpertsTogetherAreUnexpected) {
  EditedCheckpoint edited(Layout::kBf16);
  edited.pieces.push_back({"model.layers.2.mlp.experts.down_proj", Dtype::kBf16, {8, 128, 64}});
  Problems problems;
  edited.Resolve(problems);
  EXPECT_THAT(problems.errors(),
              ElementsAre(HasSubstr("model.layers.2.mlp.experts.down_proj: unexpected tensor")));
}

TEST(PrecisionPlan, FusedFp8ExpertsWithBlockScalesAreDivided) {
  EditedCheckpoint edited(Layout::kFusedBf16);
  edited.quantization = {{"quant_method", "fp8"},
                         {"weight_block_size", {32, 64}},
                         {"modules_to_not_convert",
                          {"*self_attn*", "*shared_experts*", "lm_head", "*.eh_proj",
                           "model.layers.0.mlp", "*.mlp.gate"}}};
  std::vector<testing::Piece> scales;
  for (testing::Piece& piece : edited.pieces) {
    if (!piece.name.ends_with("experts.gate_up_proj") && !piece.name.ends_with("experts.down_proj"))
      continue;
    piece.dtype = Dtype::kF8E4M3;
    scales.push_back({piece.name + "_scale_inv",
                      Dtype::kF32,
                      {piece.shape[0], (piece.shape[1] + 31) / 32, (piece.shape[2] + 63) / 64}});
  }
  edited.pieces.insert(edited.pieces.end(), scales.begin(), scales.end());
  Problems problems;
  const PrecisionPlan plan = edited.Resolve(problems, kRead);
  EXPECT_THAT(problems.errors(), IsEmpty());
  const StoredMatrix& gate = plan.Find("model.layers.2.mlp.experts.1.gate_proj.weight")->matrix;
  const StoredMatrix& up = plan.Find("model.layers.2.mlp.experts.1.up_proj.weight")->matrix;
  EXPECT_EQ(gate.format, WeightFormat::kFp8Block);
  EXPECT_EQ(up.data - gate.data, gate.rows * gate.cols);
  EXPECT_EQ(up.scales - gate.scales, gate.rows / 32 * ((gate.cols + 63) / 64) * 4);
}

TEST(GroupedMessages, NamesTheFirstAndCountsTheRest) {
  GroupedMessages messages;
  for (const int layer : {3, 4, 5, 9}) {
    const std::string name = fmt::format("model.layers.{}.mlp.up_proj", layer);
    messages.Add(NameKind(name), name, name + " is wrong");
  }
  messages.Add("other", "lm_head.weight", "lm_head.weight is odd");
  EXPECT_THAT(messages.Take(),
              ElementsAre("model.layers.3.mlp.up_proj is wrong (3 more like it; layers 3-5, 9)",
                          "lm_head.weight is odd"));
  EXPECT_TRUE(messages.empty());
}

TEST(LayerOf, ReadsTheLayer) {
  EXPECT_EQ(LayerOf("model.layers.78.eh_proj.weight"), 78);
  EXPECT_EQ(LayerOf("model.layers.x"), -1);
  EXPECT_EQ(LayerOf("model.layers.7"), -1);
  EXPECT_EQ(LayerOf("model.layers.99999999999999999999.x"), -1);
  EXPECT_EQ(LayerOf("lm_head.weight"), -1);
}

}  // namespace
}  // namespace quern::checkpoint
