#include "quern/model/expected_tensors.h"

#include <string>
#include <utility>

namespace quern::model {
namespace {

using checkpoint::ExpectedTensor;
using checkpoint::IndexerType;
using checkpoint::ModelConfig;

// Whether a tensor's module may be quantized at all.
enum class Kind { kLinear, kPlain };

// Appends tensors of one layer (or of none) under a common prefix.
class Lister {
 public:
  explicit Lister(std::vector<ExpectedTensor>& out) : out_(out) {}

  void SetLayer(int layer, bool is_mtp) {
    layer_ = layer;
    prefix_ = "model.layers." + std::to_string(layer) + ".";
    group_prefix_ = is_mtp ? "MTP layer " + std::to_string(layer) + ": " : "";
  }
  void SetOutside() {
    layer_ = -1;
    prefix_.clear();
    group_prefix_.clear();
  }
  void Add(const std::string& name, std::vector<int64_t> shape, const char* group, Kind kind) {
    out_.push_back({.name = prefix_ + name,
                    .shape = std::move(shape),
                    .quantizable = kind == Kind::kLinear,
                    .group = group_prefix_ + group,
                    .layer = layer_});
  }

 private:
  std::vector<ExpectedTensor>& out_;
  int layer_ = -1;
  std::string prefix_;
  std::string group_prefix_;
};

void AddAttention(const ModelConfig& c, Lister& list) {
  const int64_t heads = c.num_heads;
  const std::string p = "self_attn.";
  list.Add(p + "q_a_proj.weight", {c.q_lora_rank, c.hidden_size}, "attention", Kind::kLinear);
  list.Add(p + "q_a_layernorm.weight", {c.q_lora_rank}, "norms", Kind::kPlain);
  list.Add(p + "q_b_proj.weight", {heads * c.qk_head_dim(), c.q_lora_rank}, "attention",
           Kind::kLinear);
  list.Add(p + "kv_a_proj_with_mqa.weight", {c.kv_row_dim(), c.hidden_size}, "attention",
           Kind::kLinear);
  list.Add(p + "kv_a_layernorm.weight", {c.kv_lora_rank}, "norms", Kind::kPlain);
  list.Add(p + "kv_b_proj.weight", {heads * (c.qk_nope_head_dim + c.v_head_dim), c.kv_lora_rank},
           "attention", Kind::kLinear);
  list.Add(p + "o_proj.weight", {c.hidden_size, heads * c.v_head_dim}, "attention", Kind::kLinear);
}

void AddIndexer(const ModelConfig& c, Lister& list) {
  const std::string p = "self_attn.indexer.";
  list.Add(p + "wq_b.weight", {c.index_num_heads * c.index_head_dim, c.q_lora_rank}, "indexer",
           Kind::kLinear);
  list.Add(p + "wk.weight", {c.index_head_dim, c.hidden_size}, "indexer", Kind::kLinear);
  list.Add(p + "k_norm.weight", {c.index_head_dim}, "indexer", Kind::kPlain);
  list.Add(p + "k_norm.bias", {c.index_head_dim}, "indexer", Kind::kPlain);
  // A Linear module, but no dialect quantizes it: its rounding would reorder near-ties of the
  // selection.
  list.Add(p + "weights_proj.weight", {c.index_num_heads, c.hidden_size}, "indexer", Kind::kPlain);
}

// gate, up and down of one gated MLP under `prefix`.
void AddMlp(const std::string& prefix, int64_t hidden, int64_t inter, const char* group,
            Lister& list) {
  list.Add(prefix + "gate_proj.weight", {inter, hidden}, group, Kind::kLinear);
  list.Add(prefix + "up_proj.weight", {inter, hidden}, group, Kind::kLinear);
  list.Add(prefix + "down_proj.weight", {hidden, inter}, group, Kind::kLinear);
}

void AddMoe(const ModelConfig& c, Lister& list) {
  list.Add("mlp.gate.weight", {c.num_experts, c.hidden_size}, "router", Kind::kPlain);
  list.Add("mlp.gate.e_score_correction_bias", {c.num_experts}, "router", Kind::kPlain);
  for (int64_t e = 0; e < c.num_experts; ++e) {
    AddMlp("mlp.experts." + std::to_string(e) + ".", c.hidden_size, c.moe_intermediate_size,
           "routed experts", list);
  }
  AddMlp("mlp.shared_experts.", c.hidden_size, c.moe_intermediate_size * c.num_shared_experts,
         "shared expert", list);
}

// What the MTP layer has beside a decoder layer. Embedding and lm_head are the main model's.
void AddMtpExtras(const ModelConfig& c, Lister& list) {
  list.Add("enorm.weight", {c.hidden_size}, "norms", Kind::kPlain);
  list.Add("hnorm.weight", {c.hidden_size}, "norms", Kind::kPlain);
  list.Add("eh_proj.weight", {c.hidden_size, 2 * c.hidden_size}, "eh_proj", Kind::kLinear);
  list.Add("shared_head.norm.weight", {c.hidden_size}, "norms", Kind::kPlain);
}

}  // namespace

std::vector<ExpectedTensor> ExpectedTensors(const ModelConfig& c) {
  std::vector<ExpectedTensor> out;
  Lister list(out);
  list.Add("model.embed_tokens.weight", {c.vocab_size, c.hidden_size}, "embedding", Kind::kPlain);
  for (int64_t layer = 0; layer < c.total_layers(); ++layer) {
    const bool is_mtp = layer >= c.num_layers;
    list.SetLayer(static_cast<int>(layer), is_mtp);
    if (is_mtp) AddMtpExtras(c, list);
    list.Add("input_layernorm.weight", {c.hidden_size}, "norms", Kind::kPlain);
    AddAttention(c, list);
    if (c.indexer_types[layer] == IndexerType::kFull) AddIndexer(c, list);
    list.Add("post_attention_layernorm.weight", {c.hidden_size}, "norms", Kind::kPlain);
    if (c.is_moe[layer]) {
      AddMoe(c, list);
    } else {
      AddMlp("mlp.", c.hidden_size, c.intermediate_size, "dense MLP", list);
    }
  }
  list.SetOutside();
  list.Add("model.norm.weight", {c.hidden_size}, "norms", Kind::kPlain);
  if (!c.tie_word_embeddings) {
    list.Add("lm_head.weight", {c.vocab_size, c.hidden_size}, "lm_head", Kind::kLinear);
  }
  return out;
}

}  // namespace quern::model
