// Configs of known shapes: the published ones by their sizes, and small ones that keep every
// feature.
#include <string>

#include "quern/testing/checkpoint_writer.h"

namespace quern::testing {
namespace {

// Fields that all models of the family share.
Json Common(const char* model_type, const char* architecture) {
  return {{"architectures", {architecture}},
          {"model_type", model_type},
          {"attention_bias", false},
          {"attention_dropout", 0.0},
          {"hidden_act", "silu"},
          {"moe_layer_freq", 1},
          {"n_group", 1},
          {"topk_group", 1},
          {"n_shared_experts", 1},
          {"norm_topk_prob", true},
          {"num_nextn_predict_layers", 1},
          {"rms_norm_eps", 1e-5},
          {"rope_interleave", true},
          {"tie_word_embeddings", false},
          {"topk_method", "noaux_tc"}};
}

Json Dsa() {
  Json json = Common("glm_moe_dsa", "GlmMoeDsaForCausalLM");
  json["indexer_rope_interleave"] = true;
  json["scoring_func"] = "sigmoid";
  return json;
}

// "full" and "shared" by letter.
Json IndexerTypes(const std::string& letters) {
  Json types = Json::array();
  for (char letter : letters) types.push_back(letter == 'F' ? "full" : "shared");
  return types;
}

void Set(Json& json, std::initializer_list<std::pair<const char*, Json>> fields) {
  for (const auto& [name, value] : fields) json[name] = value;
}

// The tokenizer of tests/data/tokenizer has 548 tokens: 576 is the next multiple of 32.
void SetTiny(Json& json) {
  Set(json, {{"vocab_size", 576},
             {"eos_token_id", {512, 519, 521}},
             {"pad_token_id", 512},
             {"max_position_embeddings", 4096},
             {"rope_parameters", {{"rope_theta", 10000.0}, {"rope_type", "default"}}},
             {"routed_scaling_factor", 2.5},
             {"first_k_dense_replace", 1}});
}

Json TinyDsa() {
  Json json = Dsa();
  SetTiny(json);
  Set(json, {{"hidden_size", 128},
             {"num_hidden_layers", 6},
             {"num_attention_heads", 4},
             {"num_key_value_heads", 4},
             {"q_lora_rank", 64},
             {"kv_lora_rank", 32},
             {"qk_nope_head_dim", 32},
             {"qk_rope_head_dim", 16},
             {"qk_head_dim", 48},
             {"v_head_dim", 32},
             {"intermediate_size", 256},
             {"moe_intermediate_size", 64},
             {"n_routed_experts", 8},
             {"num_experts_per_tok", 2},
             {"index_n_heads", 4},
             {"index_head_dim", 32},
             {"index_topk", 16},
             {"indexer_types", IndexerTypes("FFFSSF")},
             {"index_share_for_mtp_iteration", true},
             {"moe_router_dtype", "float32"}});
  return json;
}

// About 100 MB with MXFP4 experts: weights do not stay in the caches of most machines.
Json MidDsa() {
  Json json = TinyDsa();
  Set(json, {{"hidden_size", 1024},
             {"num_attention_heads", 16},
             {"num_key_value_heads", 16},
             {"q_lora_rank", 512},
             {"kv_lora_rank", 256},
             {"intermediate_size", 4096},
             {"moe_intermediate_size", 512},
             {"n_routed_experts", 32},
             {"num_experts_per_tok", 4},
             {"index_topk", 512},
             {"max_position_embeddings", 32768}});
  return json;
}

// Sizes that end inside a 128-block in every direction: q_a 160 rows, kv_a 64 + 16, kv_b 4 x (48 +
// 40).
Json TinyEdge() {
  Json json = TinyDsa();
  Set(json, {{"hidden_size", 192},
             {"q_lora_rank", 160},
             {"kv_lora_rank", 64},
             {"qk_nope_head_dim", 48},
             {"qk_head_dim", 64},
             {"v_head_dim", 40},
             {"intermediate_size", 224},
             {"moe_intermediate_size", 96}});
  return json;
}

Json TinyLite() {
  Json json = Common("glm4_moe_lite", "Glm4MoeLiteForCausalLM");
  SetTiny(json);
  Set(json, {{"hidden_size", 128},
             {"num_hidden_layers", 4},
             {"num_attention_heads", 4},
             {"num_key_value_heads", 4},
             {"q_lora_rank", 64},
             {"kv_lora_rank", 32},
             {"qk_nope_head_dim", 32},
             {"qk_rope_head_dim", 16},
             {"qk_head_dim", 48},
             {"v_head_dim", 32},
             {"intermediate_size", 256},
             {"moe_intermediate_size", 64},
             {"n_routed_experts", 8},
             {"num_experts_per_tok", 2},
             {"routed_scaling_factor", 1.8}});
  return json;
}

void SetFullVocabulary(Json& json) {
  Set(json, {{"vocab_size", 154880},
             {"eos_token_id", {154820, 154827, 154829}},
             {"pad_token_id", 154820}});
}

Json Glm5() {
  Json json = Dsa();
  SetFullVocabulary(json);
  Set(json, {{"hidden_size", 6144},
             {"num_hidden_layers", 78},
             {"num_attention_heads", 64},
             {"num_key_value_heads", 64},
             {"head_dim", 64},
             {"q_lora_rank", 2048},
             {"kv_lora_rank", 512},
             {"qk_nope_head_dim", 192},
             {"qk_rope_head_dim", 64},
             {"qk_head_dim", 256},
             {"v_head_dim", 256},
             {"max_position_embeddings", 202752},
             {"intermediate_size", 12288},
             {"moe_intermediate_size", 2048},
             {"n_routed_experts", 256},
             {"num_experts_per_tok", 8},
             {"routed_scaling_factor", 2.5},
             {"first_k_dense_replace", 3},
             {"index_n_heads", 32},
             {"index_head_dim", 128},
             {"index_topk", 2048}});
  json["rope_parameters"] = {{"rope_theta", 1000000.0}, {"rope_type", "default"}};
  return json;
}

Json Glm52() {
  Json json = Glm5();
  std::string letters;
  Json mlp = Json::array();
  for (int i = 0; i < 78; ++i) {
    letters += i < 2 || i % 4 == 2 ? 'F' : 'S';
    mlp.push_back(i < 3 ? "dense" : "sparse");
  }
  Set(json, {{"head_dim", 192},
             {"max_position_embeddings", 1048576},
             {"moe_router_dtype", "float32"},
             {"index_topk_freq", 4},
             {"index_skip_topk_offset", 3},
             {"index_topk_pattern", nullptr},
             {"indexer_types", IndexerTypes(letters)},
             {"mlp_layer_types", std::move(mlp)},
             {"index_share_for_mtp_iteration", true}});
  json["rope_parameters"] = {{"rope_theta", 8000000.0}, {"rope_type", "default"}};
  return json;
}

Json Glm47Flash() {
  Json json = Common("glm4_moe_lite", "Glm4MoeLiteForCausalLM");
  SetFullVocabulary(json);
  Set(json, {{"hidden_size", 2048},
             {"num_hidden_layers", 47},
             {"num_attention_heads", 20},
             {"num_key_value_heads", 20},
             {"q_lora_rank", 768},
             {"kv_lora_rank", 512},
             {"qk_nope_head_dim", 192},
             {"qk_rope_head_dim", 64},
             {"v_head_dim", 256},
             {"max_position_embeddings", 202752},
             {"intermediate_size", 10240},
             {"moe_intermediate_size", 1536},
             {"n_routed_experts", 64},
             {"num_experts_per_tok", 4},
             {"routed_scaling_factor", 1.8},
             {"first_k_dense_replace", 1},
             {"rope_theta", 1000000}});
  return json;
}

struct Preset {
  const char* name;
  Json (*make)();
};
constexpr Preset kPresets[] = {{"tiny-dsa", TinyDsa},        {"tiny-lite", TinyLite},
                               {"tiny-edge", TinyEdge},      {"mid-dsa", MidDsa},
                               {"glm-5.2", Glm52},           {"glm-5", Glm5},
                               {"glm-4.7-flash", Glm47Flash}};

}  // namespace

Result<Json> PresetConfig(const std::string& name) {
  for (const Preset& preset : kPresets) {
    if (name == preset.name) return preset.make();
  }
  return InvalidArgument("unknown preset \"{}\", want one of {}", name, PresetNames());
}

std::string PresetNames() {
  std::string text;
  for (const Preset& preset : kPresets)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", preset.name);
  return text;
}

int TypicalShards(const std::string& preset, Layout layout) {
  if (preset != "glm-5.2" && preset != "glm-5") return preset == "glm-4.7-flash" ? 48 : 1;
  if (layout == Layout::kBf16) return 282;
  return layout == Layout::kFp8Block ? 141 : 94;
}

}  // namespace quern::testing
