#include "quern/checkpoint/precision_plan_extras.h"

#include <cstring>
#include <set>
#include <string_view>

#include "quern/checkpoint/precision_plan_report.h"
#include "quern/checkpoint/safetensors.h"

namespace quern::checkpoint {
namespace {

// Last components of tensors that change nothing quern computes.
constexpr std::string_view kHarmless[] = {"rotary_emb.inv_freq",
                                          "rotary_emb.cos_cached",
                                          "rotary_emb.sin_cached",
                                          "k_scale",
                                          "v_scale",
                                          "q_scale",
                                          "prob_scale",
                                          "kv_scale",
                                          "k_proj.output_scale",
                                          "v_proj.output_scale"};

bool EndsWithComponents(std::string_view name, std::string_view end) {
  return name.ends_with(end) &&
         (name.size() == end.size() || name[name.size() - end.size() - 1] == '.');
}

bool IsHarmless(std::string_view name) {
  for (const std::string_view end : kHarmless) {
    if (EndsWithComponents(name, end)) return true;
  }
  return false;
}

// The tensor that `name` should be a copy of, empty when it is not a known copy.
std::string OriginalOf(std::string_view name, const ModelConfig& config) {
  const std::string head =
      config.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  if (name == "lm_head.weight") return config.tie_word_embeddings ? head : std::string();
  if (LayerOf(name) < config.num_layers) return {};
  if (EndsWithComponents(name, "embed_tokens.weight")) return "model.embed_tokens.weight";
  return EndsWithComponents(name, "shared_head.head.weight") ? head : std::string();
}

void JudgeCopy(const Checkpoint& checkpoint, const TensorInfo& copy, const std::string& original,
               bool read, Problems& problems) {
  const TensorInfo* first = checkpoint.Find(original);
  if (first == nullptr) return;  // missing: reported as such
  if (first->dtype != copy.dtype || first->shape != copy.shape) {
    problems.Error("{} should be a copy of {}, but differs in type or shape", copy.name, original);
    return;
  }
  if (!read) {
    problems.Warning("{} should be a copy of {} and is not used; compared when the model is loaded",
                     copy.name, original);
    return;
  }
  const auto a = checkpoint.Bytes(copy), b = checkpoint.Bytes(*first);
  if (a.size() != b.size() || std::memcmp(a.data(), b.data(), a.size()) != 0) {
    problems.Error(
        "{} differs from {}; quern shares one tensor for both, as this model family does",
        copy.name, original);
  }
}

}  // namespace

void JudgeExtras(const Checkpoint& checkpoint, const ModelConfig& config, StoredTensors& stored,
                 bool read, std::vector<std::string>& notes, Problems& problems) {
  std::set<int> indexer_layers, unknown_layers;
  int64_t num_indexer = 0, num_unknown = 0, num_harmless = 0;
  std::string first_harmless;
  GroupedMessages unexpected;
  for (size_t i = 0; i < stored.tensors().size(); ++i) {
    if (stored.used(i)) continue;
    const TensorInfo& tensor = stored.tensors()[i];
    const std::string& name = tensor.name;
    const int layer = LayerOf(name);
    if (IsHarmless(name)) {
      if (num_harmless++ == 0) first_harmless = Printable(name);
    } else if (const std::string original = OriginalOf(name, config); !original.empty()) {
      JudgeCopy(checkpoint, tensor, original, read, problems);
    } else if (layer >= config.total_layers()) {
      unknown_layers.insert(layer);
      ++num_unknown;
    } else if (layer >= 0 && static_cast<size_t>(layer) < config.indexer_types.size() &&
               config.indexer_types[static_cast<size_t>(layer)] != IndexerType::kFull &&
               name.find(".self_attn.indexer.") != std::string::npos) {
      indexer_layers.insert(layer);
      ++num_indexer;
    } else {
      unexpected.Add(
          NameKind(name), name,
          fmt::format("{}: unexpected tensor, {}; a {} model has none of this name",
                      Printable(name), DescribePart(WholePart(&tensor, "")), config.model_type));
    }
  }
  if (num_harmless > 0) {
    notes.push_back(
        fmt::format("{} tensors are not used (rope tables, scales of quantized KV caches): {}{}",
                    num_harmless, first_harmless, num_harmless > 1 ? " ..." : ""));
  }
  if (num_indexer > 0) {
    problems.Error(
        "indexer tensors on the wrong layers: {} in layers {}, which own no indexer by config.json "
        "(indexer_types, "
        "or index_topk_freq with index_skip_topk_offset); config and weights are not of one model",
        num_indexer, FormatLayers(indexer_layers));
  }
  if (num_unknown > 0) {
    problems.Error(
        "{} tensors belong to layers {}, but config.json has layers 0-{} (num_hidden_layers {}, "
        "num_nextn_predict_layers {})",
        num_unknown, FormatLayers(unknown_layers), config.total_layers() - 1, config.num_layers,
        config.num_mtp_layers);
  }
  for (std::string& message : unexpected.Take()) problems.Error("{}", message);
}

}  // namespace quern::checkpoint
