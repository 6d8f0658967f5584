#include "quern/checkpoint/config.h"

#include <algorithm>
#include <string>

#include "quern/checkpoint/config_fields.h"
#include "quern/checkpoint/config_layers.h"
#include "quern/checkpoint/safetensors.h"

namespace quern::checkpoint {
namespace {

// Upper bounds: far above any model of the family, low enough that products of sizes fit in an
// int64 and a hostile file cannot ask for absurd tables.
constexpr int64_t kMaxWidth = 1 << 17;  // hidden, intermediate, ranks
constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxHeadDim = 4096;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxVocab = 1 << 24;
constexpr int64_t kMaxPositions = 1 << 27;
constexpr int64_t kMaxExperts = 1 << 14;
constexpr int64_t kMaxExpertsOfAllLayers = 1 << 18;

struct Family {
  const char* model_type;
  const char* architecture;
  bool has_indexer;
};
constexpr Family kFamilies[] = {
    {"glm_moe_dsa", "GlmMoeDsaForCausalLM", true},
    {"glm4_moe_lite", "Glm4MoeLiteForCausalLM", false},
};

std::string SupportedTypes() {
  std::string text;
  for (const Family& family : kFamilies) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} ({})", family.model_type, family.architecture);
  }
  return text;
}

// The family of the file, or nullptr with an error.
const Family* ReadFamily(const ConfigFields& fields) {
  const std::optional<std::string> type = fields.OptionalString("model_type");
  if (!type) {
    if (!fields.Has("model_type")) fields.Error("model_type is missing, want {}", SupportedTypes());
    return nullptr;
  }
  for (const Family& family : kFamilies) {
    if (*type != family.model_type) continue;
    const auto names = fields.OptionalStrings("architectures");
    if (names && std::find(names->begin(), names->end(), family.architecture) == names->end()) {
      fields.Error("architectures does not name {}, which model_type {} stands for",
                   family.architecture, family.model_type);
    }
    return &family;
  }
  fields.Error("model_type \"{}\" is not supported; supported are {}", Printable(*type),
               SupportedTypes());
  return nullptr;
}

Dtype ReadDtype(const ConfigFields& fields) {
  const auto newer = fields.OptionalString("dtype");
  const auto older = fields.OptionalString("torch_dtype");
  if (newer && older && *newer != *older) {
    fields.Error("dtype is \"{}\" but torch_dtype is \"{}\"", Printable(*newer), Printable(*older));
  }
  if (!newer && !older) {
    fields.Warning("neither dtype nor torch_dtype is there; bfloat16 is assumed");
    return Dtype::kBf16;
  }
  const std::string name = newer ? *newer : *older;
  if (name == "bfloat16") return Dtype::kBf16;
  if (name == "float16") return Dtype::kF16;
  if (name == "float32") return Dtype::kF32;
  fields.Error("dtype is \"{}\", want bfloat16, float16 or float32", Printable(name));
  return Dtype::kBf16;
}

// Refuses scaled rope by name. `where` names the object for messages.
void CheckRopeType(const ConfigFields& rope, const char* where) {
  for (const char* key : {"rope_type", "type"}) {
    const auto type = rope.OptionalString(key);
    if (type && *type != "default") {
      rope.Error("{}.{} is \"{}\"; only \"default\" is supported", where, key, Printable(*type));
    }
  }
  const double part = rope.NumberOr("partial_rotary_factor", 0, 1, 1);
  if (part != 1) {
    rope.Error("{}.partial_rotary_factor is {}; only 1 is supported", where, part);
  }
}

void ReadRope(const ConfigFields& fields, Problems& problems, ModelConfig& config) {
  constexpr double kMaxTheta = 1e12;
  const Json none;
  const Json* parameters = fields.Find("rope_parameters");
  const Json* scaling = fields.Find("rope_scaling");
  for (const auto& [name, value] :
       {std::pair{"rope_parameters", parameters}, std::pair{"rope_scaling", scaling}}) {
    if (value != nullptr && !value->is_object()) {
      fields.Error("{} is {}, want an object", name, ShowJson(*value));
    }
  }
  const ConfigFields nested(parameters != nullptr ? *parameters : none, "config.json", problems);
  CheckRopeType(nested, "rope_parameters");
  CheckRopeType(ConfigFields(scaling != nullptr ? *scaling : none, "config.json", problems),
                "rope_scaling");
  const double part = fields.NumberOr("partial_rotary_factor", 0, 1, 1);
  if (part != 1) fields.Error("partial_rotary_factor is {}; only 1 is supported", part);

  const auto inner = nested.OptionalNumber("rope_theta", 1, kMaxTheta);
  const auto outer = fields.OptionalNumber("rope_theta", 1, kMaxTheta);
  if (inner && outer && *inner != *outer) {
    fields.Error("rope_parameters.rope_theta is {} but rope_theta is {}", *inner, *outer);
  }
  if (!nested.Has("rope_theta") && !fields.Has("rope_theta")) {
    fields.Error(
        "rope theta is missing: neither rope_parameters.rope_theta nor rope_theta is there");
  }
  config.rope_theta = inner ? *inner : outer.value_or(0);
  config.rope_interleave = fields.BoolOr("rope_interleave", true);
}

void ReadSizes(const ConfigFields& fields, ModelConfig& config) {
  config.hidden_size = fields.Int("hidden_size", 1, kMaxWidth);
  config.num_layers = fields.Int("num_hidden_layers", 1, kMaxLayers);
  config.num_mtp_layers = fields.IntOr("num_nextn_predict_layers", 0, kMaxLayers, 0);
  if (config.num_mtp_layers > 1) {
    fields.Error("num_nextn_predict_layers is {}; 0 and 1 are supported", config.num_mtp_layers);
    config.num_mtp_layers = 1;
  }
  config.vocab_size = fields.Int("vocab_size", 1, kMaxVocab);
  config.max_positions = fields.Int("max_position_embeddings", 1, kMaxPositions);
  config.rms_norm_eps = static_cast<float>(fields.Number("rms_norm_eps", 0, 1));
  config.latent_norm_eps =
      static_cast<float>(fields.NumberOr("quern_latent_norm_eps", 0, 1, config.rms_norm_eps));
  config.tie_word_embeddings = fields.BoolOr("tie_word_embeddings", false);
  config.eos_token_ids = fields.TokenIds("eos_token_id", config.vocab_size - 1);
  if (const auto pad = fields.OptionalInt("pad_token_id", -1, kMaxVocab); pad && *pad >= 0) {
    config.pad_token_id = static_cast<int32_t>(*pad);
  }
}

void ReadAttention(const ConfigFields& fields, ModelConfig& config) {
  config.num_heads = fields.Int("num_attention_heads", 1, kMaxHeads);
  config.q_lora_rank = fields.Int("q_lora_rank", 1, kMaxWidth);
  config.kv_lora_rank = fields.Int("kv_lora_rank", 1, kMaxWidth);
  config.qk_nope_head_dim = fields.Int("qk_nope_head_dim", 1, kMaxHeadDim);
  config.qk_rope_head_dim = fields.Int("qk_rope_head_dim", 2, kMaxHeadDim);
  config.v_head_dim = fields.Int("v_head_dim", 1, kMaxHeadDim);
  if (config.qk_rope_head_dim % 2 != 0) {
    fields.Error("qk_rope_head_dim is {}, want an even number: rope turns pairs",
                 config.qk_rope_head_dim);
  }
  const auto stated = fields.OptionalInt("qk_head_dim", 1, 2 * kMaxHeadDim);
  if (stated && *stated != config.qk_head_dim()) {
    fields.Error("qk_head_dim is {}, but qk_nope_head_dim + qk_rope_head_dim = {}", *stated,
                 config.qk_head_dim());
  }
}

void ReadIndexer(const ConfigFields& fields, ModelConfig& config) {
  config.index_num_heads = fields.Int("index_n_heads", 1, kMaxHeads);
  config.index_head_dim = fields.Int("index_head_dim", 2, kMaxHeadDim);
  config.index_topk = fields.Int("index_topk", 1, kMaxPositions);
  config.index_rope_interleave = fields.BoolOr("indexer_rope_interleave", true);
  config.index_share_for_mtp = fields.BoolOr("index_share_for_mtp_iteration", false);
  if (config.index_head_dim < config.qk_rope_head_dim) {
    fields.Error("index_head_dim is {}, want at least qk_rope_head_dim = {}", config.index_head_dim,
                 config.qk_rope_head_dim);
  }
}

void ReadMoe(const ConfigFields& fields, ModelConfig& config) {
  config.intermediate_size = fields.Int("intermediate_size", 1, kMaxWidth);
  config.moe_intermediate_size = fields.Int("moe_intermediate_size", 1, kMaxWidth);
  config.num_experts =
      fields.Int({"n_routed_experts", "num_experts", "num_local_experts"}, 1, kMaxExperts);
  config.experts_per_token = fields.Int("num_experts_per_tok", 1, config.num_experts);
  config.num_shared_experts = fields.Int("n_shared_experts", 1, 8);
  config.routed_scaling_factor = static_cast<float>(fields.Number("routed_scaling_factor", 0, 1e6));
  config.norm_topk_prob = fields.BoolOr("norm_topk_prob", true);
  config.num_expert_groups = fields.IntOr("n_group", 1, kMaxExperts, 1);
  config.topk_groups = fields.IntOr("topk_group", 1, kMaxExperts, 1);
  if (config.num_expert_groups > 1 || config.topk_groups > 1) {
    fields.Error(
        "n_group is {} and topk_group is {}; group-limited routing is not supported, only 1 and 1",
        config.num_expert_groups, config.topk_groups);
  }
  if (config.total_layers() * config.num_experts > kMaxExpertsOfAllLayers) {
    fields.Error("{} layers of {} experts are over the limit of {} experts in all",
                 config.total_layers(), config.num_experts, kMaxExpertsOfAllLayers);
    config.num_experts = 1;
  }
}

// Refuses a string field that holds another value than the one supported; absent is fine.
void WantString(const ConfigFields& fields, const char* name, const char* wanted) {
  const auto value = fields.OptionalString(name);
  if (value && *value != wanted) {
    fields.Error("{} is \"{}\"; only \"{}\" is supported", name, Printable(*value), wanted);
  }
}

void CheckVariants(const ConfigFields& fields) {
  WantString(fields, "hidden_act", "silu");
  WantString(fields, "scoring_func", "sigmoid");
  WantString(fields, "topk_method", "noaux_tc");
  WantString(fields, "moe_router_dtype", "float32");
  for (const char* name : {"attention_bias", "mlp_bias"}) {
    if (fields.BoolOr(name, false)) fields.Error("{} is true; only false is supported", name);
  }
  if (fields.Has("swiglu_limit")) fields.Error("swiglu_limit is set; it is not supported");
  if (const auto types = fields.OptionalStrings("layer_types")) {
    for (const std::string& type : *types) {
      if (type == "deepseek_sparse_attention" || type == "indexed_attention" ||
          type == "full_attention") {
        continue;
      }
      fields.Error("layer_types holds \"{}\", which is not supported", Printable(type));
      break;
    }
  }
}

}  // namespace

ModelConfig ParseModelConfig(const Json& json, Problems& problems) {
  const ConfigFields fields(json, "config.json", problems);
  ModelConfig config;
  if (!json.is_object()) {
    fields.Error("holds {}, want an object", ShowJson(json));
    return config;
  }
  const Family* family = ReadFamily(fields);
  if (family == nullptr) return config;  // the fields of another architecture mean other things
  config.model_type = family->model_type;
  config.architecture = family->architecture;
  config.dtype = ReadDtype(fields);
  CheckVariants(fields);
  ReadSizes(fields, config);
  ReadAttention(fields, config);
  ReadRope(fields, problems, config);
  if (family->has_indexer) ReadIndexer(fields, config);
  ReadMoe(fields, config);
  ReadMlpLayers(fields, config);
  ReadIndexerLayers(fields, config);
  for (const char* name : {"quantization_config", "compression_config"}) {
    if (const Json* quantization = fields.Find(name);
        quantization && config.quantization.is_null()) {
      config.quantization = *quantization;
    }
  }
  return config;
}

}  // namespace quern::checkpoint
