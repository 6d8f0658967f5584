#include "quern/checkpoint/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

namespace quern::checkpoint {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// The fields of a GLM-5.2 config that are read, plus some that are not.
constexpr char kGlm52[] = R"({
  "architectures": ["GlmMoeDsaForCausalLM"], "model_type": "glm_moe_dsa", "dtype": "bfloat16", "attention_bias": false,
  "hidden_size": 6144, "num_hidden_layers": 78, "num_nextn_predict_layers": 1, "vocab_size": 154880, "head_dim": 192,
  "max_position_embeddings": 1048576, "rms_norm_eps": 1e-5, "num_attention_heads": 64, "num_key_value_heads": 64,
  "q_lora_rank": 2048, "kv_lora_rank": 512, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64, "qk_head_dim": 256,
  "v_head_dim": 256, "rope_parameters": {"rope_theta": 8000000, "rope_type": "default"}, "hidden_act": "silu",
  "intermediate_size": 12288, "moe_intermediate_size": 2048, "n_routed_experts": 256, "num_experts_per_tok": 8,
  "n_shared_experts": 1, "first_k_dense_replace": 3, "moe_layer_freq": 1, "routed_scaling_factor": 2.5,
  "norm_topk_prob": true, "scoring_func": "sigmoid", "topk_method": "noaux_tc", "n_group": 1, "topk_group": 1,
  "moe_router_dtype": "float32", "index_n_heads": 32, "index_head_dim": 128, "index_topk": 2048, "index_topk_freq": 4,
  "index_skip_topk_offset": 3, "index_topk_pattern": null, "index_share_for_mtp_iteration": true,
  "rope_interleave": true, "indexer_rope_interleave": true, "tie_word_embeddings": false, "use_cache": true,
  "eos_token_id": [154820, 154827, 154829], "pad_token_id": 154820, "bos_token_id": null, "transformers_version": "5.12.0"
})";

using Change = std::function<void(Json&)>;

struct Parsed {
  ModelConfig config;
  Problems problems;
};

Parsed Parse(const Change& change = [](Json&) {}) {
  Json json = *ParseJson(kGlm52);
  change(json);
  Parsed out;
  out.config = ParseModelConfig(json, out.problems);
  return out;
}

// Parse() that must succeed.
ModelConfig Good(const Change& change = [](Json&) {}) {
  Parsed parsed = Parse(change);
  EXPECT_TRUE(parsed.problems.errors().empty()) << parsed.problems.errors()[0];
  return parsed.config;
}

Change Set(const char* name, Json value) {
  return [name, value](Json& json) { json[name] = value; };
}

std::vector<int> FullLayers(const ModelConfig& config) {
  std::vector<int> layers;
  for (size_t i = 0; i < config.indexer_types.size(); ++i) {
    if (config.indexer_types[i] == IndexerType::kFull) layers.push_back(static_cast<int>(i));
  }
  return layers;
}

const std::vector<int> kGlm52FullLayers = {0,  1,  2,  6,  10, 14, 18, 22, 26, 30, 34,
                                           38, 42, 46, 50, 54, 58, 62, 66, 70, 74, 78};

TEST(ModelConfig, ReadsGlm52) {
  const ModelConfig c = Good();
  EXPECT_EQ(c.model_type, "glm_moe_dsa");
  EXPECT_EQ(c.architecture, "GlmMoeDsaForCausalLM");
  EXPECT_EQ(c.dtype, Dtype::kBf16);
  EXPECT_EQ(c.hidden_size, 6144);
  EXPECT_EQ(c.num_layers, 78);
  EXPECT_EQ(c.num_mtp_layers, 1);
  EXPECT_EQ(c.total_layers(), 79);
  EXPECT_EQ(c.vocab_size, 154880);
  EXPECT_EQ(c.max_positions, 1048576);
  EXPECT_EQ(c.rms_norm_eps, 1e-5f);
  EXPECT_EQ(c.latent_norm_eps, 1e-5f);
  EXPECT_EQ(c.num_heads, 64);
  EXPECT_EQ(c.q_lora_rank, 2048);
  EXPECT_EQ(c.kv_row_dim(), 576);
  EXPECT_EQ(c.qk_head_dim(), 256);
  EXPECT_EQ(c.v_head_dim, 256);
  EXPECT_EQ(c.rope_theta, 8e6);
  EXPECT_TRUE(c.rope_interleave);
  EXPECT_EQ(c.index_num_heads, 32);
  EXPECT_EQ(c.index_head_dim, 128);
  EXPECT_EQ(c.index_topk, 2048);
  EXPECT_TRUE(c.index_rope_interleave);
  EXPECT_TRUE(c.index_share_for_mtp);
  EXPECT_EQ(c.intermediate_size, 12288);
  EXPECT_EQ(c.moe_intermediate_size, 2048);
  EXPECT_EQ(c.num_experts, 256);
  EXPECT_EQ(c.experts_per_token, 8);
  EXPECT_EQ(c.num_shared_experts, 1);
  EXPECT_EQ(c.routed_scaling_factor, 2.5f);
  EXPECT_TRUE(c.norm_topk_prob);
  EXPECT_FALSE(c.tie_word_embeddings);
  EXPECT_EQ(c.eos_token_ids, (std::vector<int32_t>{154820, 154827, 154829}));
  EXPECT_EQ(c.pad_token_id, 154820);
  EXPECT_TRUE(c.quantization.is_null());
  EXPECT_EQ(FullLayers(c), kGlm52FullLayers);
  ASSERT_EQ(c.is_moe.size(), 79u);
  for (int i = 0; i < 79; ++i) EXPECT_EQ(c.is_moe[static_cast<size_t>(i)], i >= 3) << i;
}

TEST(ModelConfig, ReadsTheLiteModel) {
  const ModelConfig c = Good([](Json& json) {
    json["model_type"] = "glm4_moe_lite";
    json["architectures"] = {"Glm4MoeLiteForCausalLM"};
    for (const char* name :
         {"index_n_heads", "index_head_dim", "index_topk", "index_topk_freq", "scoring_func"}) {
      json.erase(name);
    }
  });
  EXPECT_FALSE(c.has_indexer());
  EXPECT_EQ(c.indexer_types, std::vector<IndexerType>(79, IndexerType::kNone));
}

TEST(ModelConfig, FieldsWithASecondSpelling) {
  const Change flat_theta = [](Json& json) {
    json.erase("rope_parameters");
    json["rope_theta"] = 1000000;
  };
  EXPECT_EQ(Good(flat_theta).rope_theta, 1e6);
  // Both, and they agree.
  EXPECT_EQ(Good(Set("rope_theta", 8e6)).rope_theta, 8e6);
  EXPECT_EQ(Good([](Json& json) {
              json.erase("dtype");
              json["torch_dtype"] = "float32";
            }).dtype,
            Dtype::kF32);
  EXPECT_EQ(Good([](Json& json) {
              json["num_experts"] = 128;
              json.erase("n_routed_experts");
            }).num_experts,
            128);
  // n_routed_experts goes first.
  EXPECT_EQ(Good(Set("num_experts", 128)).num_experts, 256);
  EXPECT_EQ(Good(Set("eos_token_id", 154820)).eos_token_ids, std::vector<int32_t>{154820});
  EXPECT_TRUE(Good(Set("eos_token_id", nullptr)).eos_token_ids.empty());
  EXPECT_EQ(Good(Set("quern_latent_norm_eps", 1e-6)).latent_norm_eps, 1e-6f);
  EXPECT_FALSE(Good(Set("rope_interleave", false)).rope_interleave);
  EXPECT_FALSE(Good(Set("indexer_rope_interleave", false)).index_rope_interleave);
  EXPECT_FALSE(Good(Set("compression_config", Json{{"quant_method", "x"}})).quantization.is_null());
  EXPECT_EQ(Good(Set("rope_scaling", Json{{"type", "default"}})).rope_theta, 8e6);
  EXPECT_FALSE(Good(Set("pad_token_id", -1)).pad_token_id.has_value());
}

TEST(ModelConfig, DefaultsOfThirdPartyFiles) {
  const ModelConfig c = Good([](Json& json) {
    for (const char* name :
         {"moe_router_dtype", "indexer_rope_interleave", "rope_interleave", "moe_layer_freq",
          "n_group", "topk_group", "scoring_func", "topk_method", "hidden_act", "norm_topk_prob",
          "tie_word_embeddings", "pad_token_id", "qk_head_dim"}) {
      json.erase(name);
    }
    json["layer_types"] = {"deepseek_sparse_attention", "indexed_attention"};
    json["mlp_bias"] = false;
  });
  EXPECT_TRUE(c.index_rope_interleave);
  EXPECT_TRUE(c.rope_interleave);
  EXPECT_TRUE(c.norm_topk_prob);
  EXPECT_EQ(c.num_expert_groups, 1);
}

// Precedence: indexer_types, then index_topk_pattern, then frequency and offset.
TEST(ModelConfig, IndexerLayers) {
  const auto small = [](const Change& change) {
    return FullLayers(Good([&change](Json& json) {
      json["num_hidden_layers"] = 6;
      json.erase("index_topk_freq");
      json.erase("index_skip_topk_offset");
      change(json);
    }));
  };
  const Json types = {"full", "full", "shared", "full", "shared", "shared"};
  using Layers = std::vector<int>;
  EXPECT_EQ(small([](Json&) {}), (Layers{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(small(Set("indexer_types", types)), (Layers{0, 1, 3, 6}));
  EXPECT_EQ(small(Set("index_topk_pattern", "FSSFFS")), (Layers{0, 3, 4, 6}));
  EXPECT_EQ(small(Set("index_topk_pattern",
                      Json{"full", "shared", "shared", "shared", "full", "shared"})),
            (Layers{0, 4, 6}));
  EXPECT_EQ(small([&types](Json& json) {
              json["indexer_types"] = types;
              json["index_topk_pattern"] = "FFFFFF";
              json["index_topk_freq"] = 2;
            }),
            (Layers{0, 1, 3, 6}));
  EXPECT_EQ(small([](Json& json) {
              json["index_topk_pattern"] = "FSFFFF";
              json["index_topk_freq"] = 2;
            }),
            (Layers{0, 2, 3, 4, 5, 6}));
  // full(i) <=> max(i - offset + 1, 0) mod freq == 0; offset 2 by default.
  EXPECT_EQ(small(Set("index_topk_freq", 2)), (Layers{0, 1, 3, 5, 6}));
  EXPECT_EQ(small([](Json& json) {
              json["index_topk_freq"] = 3;
              json["index_skip_topk_offset"] = 3;
            }),
            (Layers{0, 1, 2, 5, 6}));
  // A list may count the MTP layer, which owns an indexer whatever the list says.
  EXPECT_EQ(small(Set("index_topk_pattern", "FSSSSSS")), (Layers{0, 6}));
}

TEST(ModelConfig, ListAndScheduleOfGlm52Agree) {
  Json types = Json::array();
  for (int i = 0; i < 78; ++i) types.push_back(i < 2 || i % 4 == 2 ? "full" : "shared");
  EXPECT_EQ(FullLayers(Good(Set("indexer_types", types))), kGlm52FullLayers);
}

TEST(ModelConfig, MlpLayers) {
  const auto small = [](const Change& change) {
    return Good([&change](Json& json) {
             json["num_hidden_layers"] = 4;
             json.erase("first_k_dense_replace");
             change(json);
           })
        .is_moe;
  };
  using Moe = std::vector<bool>;
  EXPECT_EQ(small(Set("first_k_dense_replace", 2)), (Moe{false, false, true, true, true}));
  EXPECT_EQ(small(Set("mlp_layer_types", Json{"dense", "sparse", "dense", "sparse"})),
            (Moe{false, true, false, true, true}));
  EXPECT_EQ(small([](Json& json) {
              json["first_k_dense_replace"] = 0;
              json["moe_layer_freq"] = 2;
            }),
            (Moe{true, false, true, false, true}));
}

TEST(ModelConfig, DisagreeingMlpListsAreAWarning) {
  const Parsed parsed = Parse([](Json& json) {
    json["num_hidden_layers"] = 2;
    json["first_k_dense_replace"] = 2;
    json["mlp_layer_types"] = {"dense", "sparse"};
  });
  EXPECT_TRUE(parsed.problems.errors().empty());
  EXPECT_THAT(parsed.problems.warnings(), Contains(HasSubstr("mlp_layer_types is followed")));
  EXPECT_EQ(parsed.config.is_moe, (std::vector<bool>{false, true, true}));
}

struct BadField {
  const char* name;
  Json value;  // null: the field is erased
  const char* message;
};

TEST(ModelConfig, BadFieldsAreNamed) {
  const Json int_list = {1, 2};
  const std::vector<BadField> rows = {
      {"model_type", nullptr, "model_type is missing, want glm_moe_dsa"},
      {"model_type", 3, "model_type is 3, want a string"},
      {"model_type", "llama", "model_type \"llama\" is not supported; supported are glm_moe_dsa"},
      {"model_type", "glm5_next", "\"glm5_next\" is not supported"},
      {"architectures", Json{"LlamaForCausalLM"},
       "architectures does not name GlmMoeDsaForCausalLM"},
      {"architectures", "GlmMoeDsaForCausalLM",
       "architectures is \"GlmMoeDsaForCausalLM\", want a list"},
      {"architectures", int_list, "architectures[0] is 1, want a string"},
      {"dtype", "int8", "dtype is \"int8\", want bfloat16, float16 or float32"},
      {"torch_dtype", "float32", "dtype is \"bfloat16\" but torch_dtype is \"float32\""},
      {"hidden_size", nullptr, "hidden_size is missing, want an integer from 1 to 131072"},
      {"hidden_size", 0, "hidden_size is 0, want"},
      {"hidden_size", -1, "hidden_size is -1, want"},
      {"hidden_size", 131073, "hidden_size is 131073, want"},
      {"hidden_size", 6144.0, "hidden_size is 6144.0, want"},
      {"hidden_size", "6144", "hidden_size is \"6144\", want"},
      {"hidden_size", true, "hidden_size is true, want"},
      {"hidden_size", int_list, "hidden_size is a list of 2 elements, want"},
      {"hidden_size", 18446744073709551615u, "hidden_size is 18446744073709551615, want"},
      {"num_hidden_layers", 0, "num_hidden_layers is 0, want"},
      {"num_hidden_layers", 1000000000, "num_hidden_layers is 1000000000, want"},
      {"num_nextn_predict_layers", 2, "num_nextn_predict_layers is 2; 0 and 1 are supported"},
      {"vocab_size", -5, "vocab_size is -5"},
      {"max_position_embeddings", nullptr, "max_position_embeddings is missing"},
      {"rms_norm_eps", nullptr, "rms_norm_eps is missing"},
      {"rms_norm_eps", "1e-5", "rms_norm_eps is \"1e-5\", want a number"},
      {"rms_norm_eps", -1, "rms_norm_eps is -1, want a number"},
      {"num_attention_heads", 0, "num_attention_heads is 0"},
      {"q_lora_rank", nullptr, "q_lora_rank is missing"},
      {"kv_lora_rank", nullptr, "kv_lora_rank is missing"},
      {"qk_rope_head_dim", 63, "qk_rope_head_dim is 63, want an even number"},
      {"qk_head_dim", 192, "qk_head_dim is 192, but qk_nope_head_dim + qk_rope_head_dim = 256"},
      {"rope_parameters", nullptr, "rope theta is missing"},
      {"rope_parameters", Json::object(), "rope theta is missing"},
      {"rope_parameters", 8000000, "rope_parameters is 8000000, want an object"},
      {"rope_parameters", Json{{"rope_theta", "8e6"}}, "rope_theta is \"8e6\", want a number"},
      {"rope_parameters", Json{{"rope_theta", 8e6}, {"rope_type", "yarn"}},
       "rope_parameters.rope_type is \"yarn\"; only \"default\" is supported"},
      {"rope_theta", 10000, "rope_parameters.rope_theta is 8000000 but rope_theta is 10000"},
      {"rope_scaling", Json{{"type", "yarn"}, {"factor", 4}}, "rope_scaling.type is \"yarn\""},
      {"rope_scaling", "yarn", "rope_scaling is \"yarn\", want an object"},
      {"partial_rotary_factor", 0.5, "partial_rotary_factor is 0.5; only 1 is supported"},
      {"rope_interleave", 1, "rope_interleave is 1, want true or false"},
      {"index_topk", nullptr, "index_topk is missing"},
      {"index_topk", 0, "index_topk is 0"},
      {"index_head_dim", 32, "index_head_dim is 32, want at least qk_rope_head_dim = 64"},
      {"indexer_types", Json{"full"}, "indexer_types has 1 entries, want 78"},
      {"indexer_types", 3, "indexer_types is 3, want a list of strings"},
      {"indexer_types", Json(std::vector<std::string>(78, "half")),
       "indexer_types[0] is \"half\", want"},
      {"indexer_types", Json(std::vector<std::string>(78, "shared")), "layer 0 shares its indexer"},
      {"index_topk_pattern", "FSX", "index_topk_pattern has 3 entries, want 78"},
      {"index_topk_pattern", std::string(77, 'F') + "X", "index_topk_pattern[77] is \"X\""},
      {"index_topk_pattern", 5, "index_topk_pattern is 5, want a list of strings"},
      {"index_topk_freq", 0, "index_topk_freq is 0"},
      {"index_skip_topk_offset", -1, "index_skip_topk_offset is -1"},
      {"mlp_layer_types", Json{"dense"}, "mlp_layer_types has 1 entries, want 78"},
      {"mlp_layer_types", Json(std::vector<std::string>(78, "moe")),
       "mlp_layer_types[0] is \"moe\""},
      {"first_k_dense_replace", nullptr,
       "neither mlp_layer_types nor first_k_dense_replace is there"},
      {"first_k_dense_replace", -1, "first_k_dense_replace is -1"},
      {"moe_layer_freq", 0, "moe_layer_freq is 0"},
      {"n_routed_experts", nullptr, "n_routed_experts is missing"},
      {"n_routed_experts", 16000, "are over the limit of 262144 experts"},
      {"num_experts_per_tok", 257, "num_experts_per_tok is 257, want an integer from 1 to 256"},
      {"n_shared_experts", 0, "n_shared_experts is 0"},
      {"routed_scaling_factor", nullptr, "routed_scaling_factor is missing"},
      {"n_group", 8, "n_group is 8 and topk_group is 1; group-limited routing is not supported"},
      {"topk_group", 4, "group-limited routing is not supported"},
      {"scoring_func", "softmax", "scoring_func is \"softmax\"; only \"sigmoid\" is supported"},
      {"topk_method", "greedy", "topk_method is \"greedy\"; only \"noaux_tc\" is supported"},
      {"moe_router_dtype", "bfloat16", "moe_router_dtype is \"bfloat16\"; only \"float32\""},
      {"hidden_act", "gelu", "hidden_act is \"gelu\"; only \"silu\" is supported"},
      {"attention_bias", true, "attention_bias is true; only false is supported"},
      {"mlp_bias", true, "mlp_bias is true; only false is supported"},
      {"swiglu_limit", 10, "swiglu_limit is set"},
      {"layer_types", Json{"linear_attention"}, "layer_types holds \"linear_attention\""},
      {"eos_token_id", 154880, "eos_token_id is 154880, want an integer from 0 to 154879"},
      {"eos_token_id", Json{1, "x"}, "eos_token_id is \"x\""},
      {"eos_token_id", Json(std::vector<int>(2000, 1)), "eos_token_id lists 2000 token ids"},
      {"pad_token_id", "x", "pad_token_id is \"x\""},
      {"tie_word_embeddings", "no", "tie_word_embeddings is \"no\", want true or false"},
  };
  for (const BadField& row : rows) {
    SCOPED_TRACE(row.message);
    const Parsed parsed = Parse([&row](Json& json) {
      if (row.value.is_null()) {
        json.erase(row.name);
      } else {
        json[row.name] = row.value;
      }
    });
    EXPECT_THAT(parsed.problems.errors(), Contains(HasSubstr(row.message)));
    EXPECT_THAT(parsed.problems.errors()[0], HasSubstr("config.json: "));
  }
}

TEST(ModelConfig, AllProblemsTogether) {
  const Parsed parsed = Parse([](Json& json) {
    json.erase("rope_parameters");
    json.erase("hidden_size");
    json["scoring_func"] = "softmax";
  });
  EXPECT_EQ(parsed.problems.errors().size(), 3u);
}

TEST(ModelConfig, NotAnObject) {
  for (const char* text : {"null", "[]", "3", "\"x\"", "true"}) {
    Problems problems;
    ParseModelConfig(*ParseJson(text), problems);
    ASSERT_EQ(problems.errors().size(), 1u) << text;
    EXPECT_THAT(problems.errors()[0], HasSubstr("want an object"));
  }
}

// Every field replaced by every kind of value: no crash, and layer tables have the size the rest
// relies on.
TEST(ModelConfig, HostileValuesNeverCrash) {
  const std::vector<Json> values = {nullptr,
                                    true,
                                    -1,
                                    0,
                                    1,
                                    1e308,
                                    -1e308,
                                    9223372036854775807,
                                    18446744073709551615u,
                                    "",
                                    "x",
                                    Json::array(),
                                    Json::object(),
                                    Json{{"a", 1}},
                                    Json(std::vector<int>(100, 7)),
                                    Json(std::vector<std::string>(100, "full"))};
  const Json base = *ParseJson(kGlm52);
  std::vector<std::string> names = {"indexer_types",       "mlp_layer_types", "rope_scaling",
                                    "quantization_config", "layer_types",     "num_experts",
                                    "compression_config",  "swiglu_limit"};
  for (const auto& [name, value] : base.items()) names.push_back(name);
  const auto check = [](const Json& json) {
    Problems problems;
    const ModelConfig config = ParseModelConfig(json, problems);
    if (!problems.errors().empty()) return;
    ASSERT_EQ(config.is_moe.size(), static_cast<size_t>(config.total_layers()));
    ASSERT_EQ(config.indexer_types.size(), static_cast<size_t>(config.total_layers()));
    ASSERT_GT(config.rope_theta, 0);
  };
  for (const std::string& name : names) {
    for (const Json& value : values) {
      Json json = base;
      json[name] = value;
      check(json);
    }
  }
  std::mt19937 rng(3);
  for (int trial = 0; trial < 3000; ++trial) {
    Json json = base;
    for (int k = 0; k < 4; ++k) json[names[rng() % names.size()]] = values[rng() % values.size()];
    check(json);
  }
}

TEST(GenerationConfig, ReadsWhatIsThere) {
  Problems problems;
  const GenerationConfig c = ParseGenerationConfig(
      *ParseJson(
          R"({"temperature": 1.0, "top_p": 0.95, "top_k": 40, "min_p": 0.01, "repetition_penalty": 1.1,
                     "eos_token_id": [1, 2], "do_sample": true, "transformers_version": "5.0"})"),
      problems);
  EXPECT_TRUE(problems.errors().empty());
  EXPECT_EQ(c.temperature, 1.0f);
  EXPECT_EQ(c.top_p, 0.95f);
  EXPECT_EQ(c.top_k, 40);
  EXPECT_EQ(c.min_p, 0.01f);
  EXPECT_EQ(c.repetition_penalty, 1.1f);
  EXPECT_EQ(c.eos_token_ids, (std::vector<int32_t>{1, 2}));
  const GenerationConfig none = ParseGenerationConfig(Json::object(), problems);
  EXPECT_FALSE(none.temperature.has_value());
  EXPECT_TRUE(none.eos_token_ids.empty());
  EXPECT_TRUE(problems.errors().empty());
}

TEST(GenerationConfig, WithoutSamplingIsGreedy) {
  Problems problems;
  const Json json = *ParseJson(R"({"do_sample": false, "temperature": 0.7})");
  EXPECT_EQ(ParseGenerationConfig(json, problems).temperature, 0.0f);
}

TEST(GenerationConfig, BadFieldsAreNamed) {
  const std::pair<const char*, const char*> rows[] = {
      {"[]", "holds a list of 0 elements, want an object"},
      {R"({"temperature": -1})", "temperature is -1"},
      {R"({"temperature": "hot"})", "temperature is \"hot\""},
      {R"({"top_p": 1.5})", "top_p is 1.5"},
      {R"({"top_k": 1.5})", "top_k is 1.5"},
      {R"({"min_p": []})", "min_p is a list of 0 elements"},
      {R"({"repetition_penalty": 0})", "repetition_penalty is 0"},
      {R"({"eos_token_id": -1})", "eos_token_id is -1"},
      {R"({"eos_token_id": [99999999999]})", "eos_token_id is 99999999999"},
      {R"({"do_sample": 1})", "do_sample is 1"},
  };
  for (const auto& [text, message] : rows) {
    Problems problems;
    ParseGenerationConfig(*ParseJson(text), problems);
    EXPECT_THAT(problems.errors(), Contains(HasSubstr(message))) << text;
  }
}

}  // namespace
}  // namespace quern::checkpoint
