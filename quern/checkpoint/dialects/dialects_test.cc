#include "quern/checkpoint/dialects/dialects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quern::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Json Fixture(const std::string& name) {
  auto json =
      ReadJsonFile(std::string(QUERN_SOURCE_DIR) + "/tests/data/quant_configs/" + name + ".json");
  EXPECT_TRUE(json.ok()) << name;
  return json.ok() ? *json : Json();
}

struct Case {
  const char* module;
  const char* wanted;
  const char* rule;
  bool fallback = false;
};

void ExpectRules(const std::string& fixture, const std::string& name,
                 const std::vector<Case>& cases) {
  SCOPED_TRACE(fixture);
  Problems problems;
  const auto dialect = ParseQuantization(Fixture(fixture), "quantization_config", problems);
  EXPECT_THAT(problems.errors(), IsEmpty());
  ASSERT_NE(dialect, nullptr);
  EXPECT_EQ(dialect->name(), name);
  for (const Case& c : cases) {
    const Rule rule = dialect->Decide(c.module);
    EXPECT_EQ(WantedName(rule.wanted), c.wanted) << c.module;
    EXPECT_EQ(rule.text, c.rule) << c.module;
    EXPECT_EQ(rule.fallback, c.fallback) << c.module;
  }
}

TEST(Dialects, Fp8) {
  ExpectRules(
      "fp8_block", "fp8 (block 128x128)",
      {{"lm_head", "unquantized", "modules_to_not_convert[0] \"lm_head\""},
       {"model.layers.0.input_layernorm", "unquantized",
        "modules_to_not_convert[3] \"model.layers.0.input_layernorm\""},
       {"model.layers.3.mlp.gate.e_score_correction_bias", "unquantized",
        "modules_to_not_convert[6] \"model.layers.3.mlp.gate\""},
       {"model.layers.3.mlp.gate_proj", "fp8_block 128x128", "weight_block_size [128, 128]", true},
       {"model.layers.0.self_attn.indexer.weights_proj", "fp8_block 128x128",
        "weight_block_size [128, 128]", true}});
  ExpectRules(
      "fp8_ignored_layers", "fp8 (per tensor)",
      {{"lm_head", "unquantized", "ignored_layers[0] \"lm_head\""},
       {"model.layers.5.mlp.gate", "unquantized", "ignored_layers[1] \"mlp.gate\""},
       {"model.layers.2.mlp.up_proj", "unquantized",
        "ignored_layers[2] \"model\\.layers\\.(1|2)\\.mlp\""},
       {"model.layers.20.mlp.up_proj", "fp8_tensor", "quant_method fp8, no weight_block_size",
        true},
       {"model.layers.9.self_attn.o_proj", "unquantized", "ignored_layers[3] \"*.self_attn\""}});
}

TEST(Dialects, Fp8WithoutAListLeavesTheOutputHeadAlone) {
  Problems problems;
  const auto dialect =
      ParseQuantization({{"quant_method", "fp8"}, {"weight_block_size", {64, 128}}}, "q", problems);
  ASSERT_NE(dialect, nullptr);
  EXPECT_FALSE(dialect->Decide("lm_head").wanted.quantized);
  EXPECT_EQ(WantedName(dialect->Decide("model.layers.0.mlp.up_proj").wanted), "fp8_block 64x128");
}

TEST(Dialects, Quark) {
  ExpectRules(
      "quark_mxfp4", "quark",
      {{"lm_head", "unquantized", "exclude[0] \"lm_head\""},
       {"model.layers.78.mlp.experts.0.gate_proj", "unquantized",
        "exclude[2] \"model.layers.78.mlp.experts.0.gate_proj\""},
       {"model.layers.78.mlp.experts.1.gate_proj", "mxfp4", "global_quant_config: fp4 per_group 32",
        true},
       {"model.layers.7.self_attn.kv_b_proj", "unquantized", "exclude[4] \"*self_attn*\""},
       {"model.layers.0.mlp.up_proj", "unquantized", "exclude[5] \"model.layers.0.mlp\""},
       {"model.layers.2.mlp.up_proj", "unquantized",
        "exclude[6] \"re:model\\.layers\\.[12]\\.mlp\\.\""},
       {"model.layers.9.mlp.gate", "unquantized", "exclude[7] \"*.mlp.gate\""},
       {"model.layers.9.mlp.gate.bias", "unquantized", "exclude[7] \"*.mlp.gate\""},
       {"model.layers.9.mlp.gate_proj", "mxfp4", "global_quant_config: fp4 per_group 32", true}});
  ExpectRules("quark_mixed", "quark",
              {{"lm_head", "unquantized", "exclude[0] \"lm_head\""},
               {"model.layers.3.self_attn.o_proj", "unquantized",
                "layer_quant_config[\"*self_attn.o_proj\"]: not quantized"},
               {"model.layers.3.self_attn.q_a_proj", "fp8_channel",
                "layer_quant_config[\"*self_attn*\"]: fp8_e4m3 per_channel"},
               {"model.layers.1.mlp.down_proj", "fp8_block 128x128",
                "layer_quant_config[\"model.layers.1.mlp.down_proj\"]: fp8_e4m3 per_block 128x128"},
               {"model.layers.3.mlp.shared_experts.up_proj", "fp8_tensor",
                "layer_quant_config[\"shared_experts\"]: fp8_e4m3 per_tensor"},
               {"model.layers.3.mlp.experts.0.up_proj", "mxfp4",
                "global_quant_config: fp4 per_group 32", true}});
}

TEST(Dialects, QuarkTypeRulesStandBeforeTheGlobalOne) {
  ExpectRules("quark_nvfp4", "quark",
              {{"model.layers.3.mlp.experts.0.up_proj", "unquantized",
                "layer_type_quant_config: not quantized", true}});
  Json json = Fixture("quark_nvfp4");
  json["layer_type_quant_config"] = Json::object();
  Problems problems;
  const auto dialect = ParseQuantization(json, "q", problems);
  ASSERT_NE(dialect, nullptr);
  const Rule rule = dialect->Decide("model.layers.3.mlp.experts.0.up_proj");
  EXPECT_EQ(WantedName(rule.wanted), "nvfp4");
  EXPECT_EQ(rule.text, "global_quant_config: fp4 per_group 16, fp8_e4m3 scales");
}

TEST(Dialects, CompressedTensors) {
  ExpectRules("compressed_tensors_mxfp4", "compressed-tensors",
              {{"lm_head", "unquantized", "ignore[0] \"lm_head\""},
               {"model.layers.0.mlp.down_proj", "unquantized",
                "ignore[1] \"model.layers.0.mlp.down_proj\""},
               {"model.layers.0.self_attn.o_proj", "unquantized", "ignore[2] \"re:.*self_attn.*\""},
               {"model.layers.3.mlp.experts.5.up_proj", "mxfp4",
                "config_groups.group_0.targets \"Linear\": float 4 group 32", true}});
  ExpectRules("compressed_tensors_mixed", "compressed-tensors",
              {{"model.layers.0.self_attn.o_proj", "fp8_channel",
                "config_groups.group_0.targets[0] \"re:.*self_attn.*\": float 8 channel"},
               {"model.layers.0.mlp.up_proj", "fp8_channel",
                "config_groups.group_0.targets[1] \"model.layers.0.mlp.up_proj\": float 8 channel"},
               {"model.layers.3.mlp.shared_experts.up_proj", "fp8_block 128x128",
                "config_groups.group_2.targets[0] \"re:.*shared_experts.*\": float 8 block"},
               {"model.layers.3.mlp.experts.5.up_proj", "nvfp4",
                "config_groups.group_1.targets \"Linear\": float 4 tensor_group 16", true}});
}

TEST(Dialects, Modelopt) {
  ExpectRules(
      "modelopt_nvfp4", "modelopt (NVFP4)",
      {{"lm_head", "unquantized", "ignore[0] \"lm_head\""},
       {"model.layers.0.mlp.up_proj", "unquantized", "ignore[1] \"model.layers.0*\""},
       {"model.layers.78.mlp.experts.0.up_proj", "unquantized", "ignore[4] \"model.layers.78*\""},
       {"model.layers.3.mlp.experts.0.up_proj", "nvfp4", "quant_algo NVFP4", true}});
  ExpectRules(
      "hf_quant_config", "modelopt (NVFP4)",
      {{"model.layers.3.self_attn.o_proj", "unquantized", "exclude_modules[1] \"*self_attn*\""},
       {"model.layers.3.mlp.experts.0.up_proj", "nvfp4", "quant_algo NVFP4", true}});
  ExpectRules("modelopt_mixed", "modelopt (MIXED_PRECISION)",
              {{"model.layers.3.mlp.experts.0.gate_proj", "nvfp4",
                "quantized_layers[\"model.layers.3.mlp.experts.0.gate_proj\"]"},
               {"model.layers.3.self_attn.o_proj", "fp8_tensor",
                "quantized_layers[\"model.layers.3.self_attn\"]"},
               {"model.layers.1.mlp.down_proj", "fp8_block 128x128",
                "quantized_layers[\"model.layers.*.mlp.down_proj\"]"},
               {"lm_head", "unquantized", "not in quantized_layers", true}});
}

TEST(Dialects, GptOss) {
  ExpectRules(
      "gptoss_mxfp4", "mxfp4 (gpt-oss)",
      {{"model.layers.3.mlp.experts.gate_up_proj", "mxfp4", "quant_method mxfp4: experts", true},
       {"model.layers.78.mlp.experts.0.up_proj", "unquantized",
        "modules_to_not_convert[2] \"model.layers.78.mlp.experts\""},
       {"model.layers.3.mlp.shared_experts.up_proj", "unquantized",
        "quant_method mxfp4: experts only", true},
       {"model.layers.3.self_attn.o_proj", "unquantized",
        "modules_to_not_convert[0] \"model.layers.*.self_attn\""}});
}

TEST(Dialects, ReportsEntriesThatMatchNothing) {
  Problems problems;
  const auto dialect = ParseQuantization(Fixture("quark_mxfp4"), "q", problems);
  ASSERT_NE(dialect, nullptr);
  for (const char* module :
       {"lm_head", "model.layers.78.eh_proj", "model.layers.78.mlp.experts.0.gate_proj",
        "model.layers.78.mlp.shared_experts.gate_proj", "model.layers.1.self_attn.o_proj",
        "model.layers.0.mlp.up_proj", "model.layers.1.mlp.up_proj", "model.layers.1.mlp.gate"}) {
    dialect->Decide(module);
  }
  dialect->Report(problems);
  EXPECT_THAT(problems.errors(), IsEmpty());
  EXPECT_THAT(problems.warnings(),
              ElementsAre("1 of 9 entries of exclude match no module of this model: exclude[8] "
                          "\"model.layers.99.mlp.down_proj\""));
}

// What is not supported is refused by name, with what is.
TEST(Dialects, RefusesTheRestByName) {
  struct Refused {
    Json json;
    std::vector<const char*> words;
  };
  Json int4 = Fixture("compressed_tensors_mxfp4");
  int4["format"] = "pack-quantized";
  Json int8_weights = Fixture("compressed_tensors_mxfp4");
  int8_weights["config_groups"]["group_0"]["weights"]["type"] = "int";
  Json asymmetric = Fixture("compressed_tensors_mxfp4");
  asymmetric["config_groups"]["group_0"]["weights"]["symmetric"] = false;
  Json sparse = Fixture("compressed_tensors_mxfp4");
  sparse["sparsity_config"] = {{"format", "sparse-24-bitmask"}};
  Json rotated = Fixture("compressed_tensors_mxfp4");
  rotated["transform_config"] = {{"config_groups", {{"R1", Json::object()}}}};
  Json quark_int4 = Fixture("quark_mxfp4");
  quark_int4["global_quant_config"]["weight"]["dtype"] = "int4";
  Json quark_fp6 = Fixture("quark_mxfp4");
  quark_fp6["global_quant_config"]["weight"]["dtype"] = "fp6_e2m3";
  Json quark_scheme = Fixture("quark_mxfp4");
  quark_scheme["global_quant_config"]["weight"]["qscheme"] = "per_galaxy";
  Json quark_group = Fixture("quark_mxfp4");
  quark_group["global_quant_config"]["weight"]["group_size"] = 16;
  Json quark_pack = Fixture("quark_mxfp4");
  quark_pack["export"]["pack_method"] = "shuffle";
  Json quark_fake = Fixture("quark_mxfp4");
  quark_fake["export"]["weight_format"] = "fake_quantized";
  Json quark_layer = Fixture("quark_mixed");
  quark_layer["layer_quant_config"]["*self_attn*"]["weight"]["dtype"] = "int8";
  Json modelopt_int4 = Fixture("modelopt_nvfp4");
  modelopt_int4["quant_algo"] = "W4A16_AWQ";
  Json e5m2 = Fixture("fp8_block");
  e5m2["fmt"] = "e5m2";
  const Refused cases[] = {
      {{{"quant_method", "gptq"}}, {"\"gptq\" is not supported", "quark", "compressed-tensors"}},
      {{{"quant_method", "awq"}}, {"\"awq\" is not supported", "bf16"}},
      {{{"quant_method", "bitsandbytes"}}, {"\"bitsandbytes\" is not supported", "modelopt"}},
      {{{"bits", 4}}, {"quant_method is missing", "mxfp4 (gpt-oss experts)"}},
      {{{"quant_method", 7}}, {"quant_method is 7, want a string"}},
      {"fp8", {"is \"fp8\", want an object"}},
      {int4, {"format \"pack-quantized\" is not supported", "mxfp4-pack-quantized"}},
      {int8_weights, {"type \"int\"", "not supported", "float-quantized"}},
      {asymmetric, {"symmetric is false"}},
      {sparse, {"sparse-24-bitmask"}},
      {rotated, {"transform_config"}},
      {quark_int4, {"global_quant_config.weight: dtype is \"int4\"", "fp8_e4m3"}},
      {quark_fp6, {"dtype is \"fp6_e2m3\"", "fp4"}},
      {quark_scheme, {"qscheme is \"per_galaxy\"", "per_group"}},
      {quark_group, {"group_size 16", "want per_group, 32"}},
      {quark_pack, {"pack_method is \"shuffle\"", "reorder"}},
      {quark_fake, {"weight_format is \"fake_quantized\""}},
      {quark_layer, {"layer_quant_config[\"*self_attn*\"].weight: dtype is \"int8\""}},
      {modelopt_int4, {"quant_algo \"W4A16_AWQ\" is not supported", "NVFP4"}},
      {e5m2, {"fmt is \"e5m2\"", "e4m3"}},
  };
  for (const Refused& c : cases) {
    Problems problems;
    EXPECT_EQ(ParseQuantization(c.json, "config.json: quantization_config", problems), nullptr);
    ASSERT_THAT(problems.errors(), SizeIs(1)) << DumpJson(c.json);
    for (const char* word : c.words) EXPECT_THAT(problems.errors()[0], HasSubstr(word));
  }
}

// Every field of every fixture replaced by every kind of wrong value: errors perhaps, never a
// crash.
TEST(Dialects, SurvivesAnyValueAnywhere) {
  const Json junk[] = {nullptr,
                       true,
                       -1,
                       1e300,
                       uint64_t{1} << 63,
                       "",
                       "re:(",
                       "*",
                       Json::array(),
                       Json::array({nullptr, 3, "x"}),
                       Json::object(),
                       {{"weight", 3}}};
  for (const char* fixture :
       {"fp8_block", "fp8_ignored_layers", "quark_mxfp4", "quark_mixed", "quark_nvfp4",
        "compressed_tensors_mxfp4", "compressed_tensors_mixed", "modelopt_nvfp4", "hf_quant_config",
        "modelopt_mixed", "gptoss_mxfp4"}) {
    const Json good = Fixture(fixture);
    const Json flat = good.flatten();
    size_t parsed = 0;
    for (const auto& [pointer, value] : flat.items()) {
      for (Json::json_pointer at(pointer); !at.empty(); at = at.parent_pointer()) {
        for (const Json& value_to_try : junk) {
          Json bad = good;
          bad[at] = value_to_try;
          Problems problems;
          const auto dialect = ParseQuantization(bad, "q", problems);
          EXPECT_TRUE(dialect != nullptr || !problems.errors().empty());
          if (dialect == nullptr) continue;
          ++parsed;
          dialect->Decide("model.layers.3.mlp.experts.0.up_proj");
          dialect->Report(problems);
        }
      }
    }
    EXPECT_GT(parsed, 0u) << fixture;
  }
}

}  // namespace
}  // namespace quern::checkpoint
