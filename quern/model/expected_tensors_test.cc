#include "quern/model/expected_tensors.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>

#include "quern/base/json.h"

namespace quern::model {
namespace {

using checkpoint::ExpectedTensor;
using checkpoint::ModelConfig;
using checkpoint::Problems;

// The published config.json files hold these fields among others.
constexpr char kGlm52[] = R"({
  "architectures": ["GlmMoeDsaForCausalLM"], "model_type": "glm_moe_dsa", "dtype": "bfloat16",
  "hidden_size": 6144, "num_hidden_layers": 78, "num_nextn_predict_layers": 1, "vocab_size": 154880,
  "max_position_embeddings": 1048576, "rms_norm_eps": 1e-5, "num_attention_heads": 64, "q_lora_rank": 2048,
  "kv_lora_rank": 512, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64, "v_head_dim": 256,
  "rope_parameters": {"rope_theta": 8000000, "rope_type": "default"}, "intermediate_size": 12288,
  "moe_intermediate_size": 2048, "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1,
  "first_k_dense_replace": 3, "routed_scaling_factor": 2.5, "index_n_heads": 32, "index_head_dim": 128,
  "index_topk": 2048, "index_topk_freq": 4, "index_skip_topk_offset": 3})";

ModelConfig Config(const std::function<void(Json&)>& change = [](Json&) {}) {
  Json json = *ParseJson(kGlm52);
  change(json);
  Problems problems;
  ModelConfig config = checkpoint::ParseModelConfig(json, problems);
  EXPECT_TRUE(problems.errors().empty()) << problems.ToStatus("config").message();
  return config;
}

std::map<std::string, ExpectedTensor> ByName(const std::vector<ExpectedTensor>& list) {
  std::map<std::string, ExpectedTensor> out;
  for (const ExpectedTensor& tensor : list) {
    EXPECT_TRUE(out.emplace(tensor.name, tensor).second) << tensor.name << " twice";
  }
  return out;
}

int64_t Elements(const std::vector<ExpectedTensor>& list) {
  int64_t total = 0;
  for (const ExpectedTensor& tensor : list) {
    int64_t n = 1;
    for (int64_t dim : tensor.shape) n *= dim;
    total += n;
  }
  return total;
}

TEST(ExpectedTensors, Glm52HasThePublishedCountAndParameters) {
  const auto list = ExpectedTensors(Config());
  EXPECT_EQ(list.size(), 59585u);
  // The index's total_size, 1,506,659,919,872 bytes = parameters x 2 + 19,456 router biases x 4.
  EXPECT_EQ(Elements(list), 753'329'921'024 + 19'456);
  std::set<int> indexer_layers;
  std::map<int, int> per_layer;
  for (const ExpectedTensor& tensor : list) {
    ++per_layer[tensor.layer];
    if (tensor.name.find(".indexer.") != std::string::npos) indexer_layers.insert(tensor.layer);
  }
  EXPECT_EQ(indexer_layers, (std::set<int>{0,  1,  2,  6,  10, 14, 18, 22, 26, 30, 34,
                                           38, 42, 46, 50, 54, 58, 62, 66, 70, 74, 78}));
  EXPECT_EQ(per_layer[6], 787);
  EXPECT_EQ(per_layer[5], 782);
  EXPECT_EQ(per_layer[78], 791);
  EXPECT_EQ(per_layer[-1], 3);
}

TEST(ExpectedTensors, Glm5HasAnIndexerInEveryLayer) {
  const auto list = ExpectedTensors(Config([](Json& json) {
    json.erase("index_topk_freq");
    json.erase("index_skip_topk_offset");
  }));
  EXPECT_EQ(list.size(), 59079u + 791u);
  EXPECT_EQ(Elements(list), 753'864'119'552 + 19'456);
}

TEST(ExpectedTensors, ShapesOfTheTable) {
  const auto by_name = ByName(ExpectedTensors(Config()));
  const std::pair<const char*, std::vector<int64_t>> wanted[] = {
      {"model.embed_tokens.weight", {154880, 6144}},
      {"model.norm.weight", {6144}},
      {"lm_head.weight", {154880, 6144}},
      {"model.layers.0.input_layernorm.weight", {6144}},
      {"model.layers.0.self_attn.q_a_proj.weight", {2048, 6144}},
      {"model.layers.0.self_attn.q_a_layernorm.weight", {2048}},
      {"model.layers.0.self_attn.q_b_proj.weight", {16384, 2048}},
      {"model.layers.0.self_attn.kv_a_proj_with_mqa.weight", {576, 6144}},
      {"model.layers.0.self_attn.kv_a_layernorm.weight", {512}},
      {"model.layers.0.self_attn.kv_b_proj.weight", {28672, 512}},
      {"model.layers.0.self_attn.o_proj.weight", {6144, 16384}},
      {"model.layers.74.self_attn.indexer.wq_b.weight", {4096, 2048}},
      {"model.layers.74.self_attn.indexer.wk.weight", {128, 6144}},
      {"model.layers.74.self_attn.indexer.k_norm.weight", {128}},
      {"model.layers.74.self_attn.indexer.k_norm.bias", {128}},
      {"model.layers.74.self_attn.indexer.weights_proj.weight", {32, 6144}},
      {"model.layers.2.mlp.gate_proj.weight", {12288, 6144}},
      {"model.layers.2.mlp.down_proj.weight", {6144, 12288}},
      {"model.layers.3.mlp.gate.weight", {256, 6144}},
      {"model.layers.3.mlp.gate.e_score_correction_bias", {256}},
      {"model.layers.3.mlp.experts.255.up_proj.weight", {2048, 6144}},
      {"model.layers.3.mlp.experts.255.down_proj.weight", {6144, 2048}},
      {"model.layers.3.mlp.shared_experts.gate_proj.weight", {2048, 6144}},
      {"model.layers.78.enorm.weight", {6144}},
      {"model.layers.78.hnorm.weight", {6144}},
      {"model.layers.78.eh_proj.weight", {6144, 12288}},
      {"model.layers.78.shared_head.norm.weight", {6144}},
  };
  for (const auto& [name, shape] : wanted) {
    ASSERT_TRUE(by_name.count(name)) << name;
    EXPECT_EQ(by_name.at(name).shape, shape) << name;
  }
  EXPECT_FALSE(by_name.count("model.layers.78.embed_tokens.weight"));
  EXPECT_FALSE(by_name.count("model.layers.3.self_attn.indexer.wk.weight"));
}

TEST(ExpectedTensors, OnlyLinearModulesMayBeQuantized) {
  for (const ExpectedTensor& tensor : ExpectedTensors(Config())) {
    const bool is_plain = tensor.shape.size() == 1 ||
                          tensor.name.find("embed_tokens") != std::string::npos ||
                          tensor.name.find("mlp.gate.") != std::string::npos ||
                          tensor.name.find("weights_proj") != std::string::npos;
    EXPECT_EQ(tensor.quantizable, !is_plain) << tensor.name;
  }
}

TEST(ExpectedTensors, GroupsAreNamedForPeople) {
  std::set<std::string> groups;
  for (const ExpectedTensor& tensor : ExpectedTensors(Config())) groups.insert(tensor.group);
  EXPECT_EQ(groups, (std::set<std::string>{
                        "embedding", "attention", "indexer", "norms", "dense MLP", "router",
                        "routed experts", "shared expert", "lm_head", "MTP layer 78: attention",
                        "MTP layer 78: indexer", "MTP layer 78: norms", "MTP layer 78: router",
                        "MTP layer 78: routed experts", "MTP layer 78: shared expert",
                        "MTP layer 78: eh_proj"}));
}

TEST(ExpectedTensors, TiedEmbeddingsHaveNoLmHead) {
  const auto tied = ExpectedTensors(Config([](Json& json) { json["tie_word_embeddings"] = true; }));
  EXPECT_EQ(tied.size(), 59584u);
  EXPECT_FALSE(ByName(tied).count("lm_head.weight"));
}

TEST(ExpectedTensors, WithoutAnMtpLayerNothingLiesBeyondTheLastDecoderLayer) {
  const auto list =
      ExpectedTensors(Config([](Json& json) { json["num_nextn_predict_layers"] = 0; }));
  EXPECT_EQ(list.size(), 58794u);
}

TEST(ExpectedTensors, LiteModelHasNoIndexer) {
  const auto list = ExpectedTensors(Config([](Json& json) {
    json["model_type"] = "glm4_moe_lite";
    json["architectures"] = {"Glm4MoeLiteForCausalLM"};
    json["num_hidden_layers"] = 47;
    json["n_routed_experts"] = 64;
    json["first_k_dense_replace"] = 1;
  }));
  // Per layer 9 (norms and attention); dense + 3; MoE + 2 + 3 x 64 + 3; MTP + 4; embedding, norm,
  // lm_head.
  EXPECT_EQ(list.size(), 48u * 9 + 3 + 47u * 197 + 4 + 3);
}

}  // namespace
}  // namespace quern::model
