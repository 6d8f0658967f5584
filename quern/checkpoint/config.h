// config.json and generation_config.json as typed structs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quern/base/json.h"
#include "quern/checkpoint/problems.h"
#include "quern/numerics/dtype.h"

namespace quern::checkpoint {

enum class IndexerType : uint8_t { kNone, kFull, kShared };

// One struct for the family: glm_moe_dsa (GLM-5, 5.1, 5.2, 5.3) and glm4_moe_lite (GLM-4.7-Flash,
// no indexer). Layers are 0-based; the MTP layer, if any, is layer num_layers.
struct ModelConfig {
  std::string model_type;      // "glm_moe_dsa" | "glm4_moe_lite"
  std::string architecture;    // "GlmMoeDsaForCausalLM" | "Glm4MoeLiteForCausalLM"
  Dtype dtype = Dtype::kBf16;  // activations and unquantized weights: kBf16, kF32 or kF16

  int64_t hidden_size = 0;
  int64_t num_layers = 0;      // decoder layers, MTP not counted
  int64_t num_mtp_layers = 0;  // num_nextn_predict_layers: 0 or 1
  int64_t vocab_size = 0;
  int64_t max_positions = 0;
  float rms_norm_eps = 1e-5f;

  // MLA
  int64_t num_heads = 0;
  int64_t q_lora_rank = 0;
  int64_t kv_lora_rank = 0;
  int64_t qk_nope_head_dim = 0;
  int64_t qk_rope_head_dim = 0;
  int64_t v_head_dim = 0;
  // eps of q_a_layernorm and kv_a_layernorm. Engines use rms_norm_eps; transformers its class
  // default 1e-6. Read from "quern_latent_norm_eps" if the file has it; --latent-norm-eps
  // overrides.
  float latent_norm_eps = 1e-5f;
  double rope_theta = 0;
  bool rope_interleave = true;

  // DSA indexer; index_topk = 0 when the model has none.
  int64_t index_num_heads = 0;
  int64_t index_head_dim = 0;
  int64_t index_topk = 0;
  bool index_rope_interleave = true;
  bool index_share_for_mtp = false;
  float index_norm_eps = 1e-6f;
  // [num_layers + num_mtp_layers]; kNone everywhere when there is no indexer.
  std::vector<IndexerType> indexer_types;

  // MLP and MoE
  int64_t intermediate_size = 0;
  int64_t moe_intermediate_size = 0;
  int64_t num_experts = 0;
  int64_t experts_per_token = 0;
  int64_t num_shared_experts = 0;
  int64_t num_expert_groups = 1;  // n_group
  int64_t topk_groups = 1;        // topk_group
  float routed_scaling_factor = 1.0f;
  bool norm_topk_prob = true;
  std::vector<bool> is_moe;  // [num_layers + num_mtp_layers]

  bool tie_word_embeddings = false;
  std::vector<int32_t> eos_token_ids;
  std::optional<int32_t> pad_token_id;

  // config.json's "quantization_config" (or "compression_config"), null when unquantized; dialects
  // read it.
  Json quantization;

  int64_t qk_head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
  int64_t kv_row_dim() const { return kv_lora_rank + qk_rope_head_dim; }
  bool has_indexer() const { return index_topk > 0; }
  int64_t total_layers() const { return num_layers + num_mtp_layers; }
};

// Reads config.json. Every missing, mistyped, out-of-range or inconsistent field is an Error in
// `problems` naming the field, what it holds and what was wanted (a missing rope theta is an error,
// never a default; an unsupported model_type names the supported ones); the returned struct is
// usable only if there were none. Never throws or crashes whatever the JSON holds.
ModelConfig ParseModelConfig(const Json& json, Problems& problems);

// generation_config.json: what a request gets when it does not say.
struct GenerationConfig {
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<int64_t> top_k;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::vector<int32_t> eos_token_ids;  // empty: use the model config's
};
GenerationConfig ParseGenerationConfig(const Json& json, Problems& problems);

}  // namespace quern::checkpoint
