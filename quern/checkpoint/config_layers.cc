#include "quern/checkpoint/config_layers.h"

#include <algorithm>
#include <string>
#include <vector>

#include "quern/checkpoint/safetensors.h"

namespace quern::checkpoint {
namespace {

// Of counts and periods of layers. They may exceed the number of layers: a cut-down model keeps the
// original's.
constexpr int64_t kMaxLayerCount = 1024;

// One entry per decoder layer, or with the MTP layer's at the end; anything else is an error.
bool HasLayerCount(const ConfigFields& fields, const char* name, size_t size,
                   const ModelConfig& config) {
  const size_t layers = static_cast<size_t>(config.num_layers);
  if (size == layers || size == static_cast<size_t>(config.total_layers())) return true;
  fields.Error("{} has {} entries, want {} (num_hidden_layers)", name, size, layers);
  return false;
}

// is_moe of the decoder layers from first_k_dense_replace and moe_layer_freq.
std::vector<bool> MoeByCount(const ConfigFields& fields, int64_t num_layers) {
  const int64_t num_dense = fields.Int("first_k_dense_replace", 0, kMaxLayerCount);
  const int64_t freq = fields.IntOr("moe_layer_freq", 1, kMaxLayerCount, 1);
  std::vector<bool> is_moe;
  for (int64_t i = 0; i < num_layers; ++i) is_moe.push_back(i >= num_dense && i % freq == 0);
  return is_moe;
}

// is_moe of the decoder layers from mlp_layer_types; empty after an error.
std::vector<bool> MoeByType(const ConfigFields& fields, const std::vector<std::string>& types,
                            const ModelConfig& config) {
  if (!HasLayerCount(fields, "mlp_layer_types", types.size(), config)) return {};
  std::vector<bool> is_moe;
  for (const std::string& type : types) {
    if (type != "dense" && type != "sparse") {
      fields.Error("mlp_layer_types[{}] is \"{}\", want \"dense\" or \"sparse\"", is_moe.size(),
                   Printable(type));
      return {};
    }
    is_moe.push_back(type == "sparse");
  }
  is_moe.resize(static_cast<size_t>(config.num_layers));
  return is_moe;
}

using Types = std::vector<IndexerType>;

// From words ("full", "shared") or letters (F, S); empty after an error.
Types IndexersByName(const ConfigFields& fields, const char* name,
                     const std::vector<std::string>& words, const ModelConfig& config) {
  if (!HasLayerCount(fields, name, words.size(), config)) return {};
  Types types;
  for (const std::string& word : words) {
    const bool full = word == "full" || word == "F";
    if (!full && word != "shared" && word != "S") {
      fields.Error("{}[{}] is \"{}\", want \"full\" or \"shared\"", name, types.size(),
                   Printable(word));
      return {};
    }
    types.push_back(full ? IndexerType::kFull : IndexerType::kShared);
  }
  types.resize(static_cast<size_t>(config.num_layers));
  return types;
}

Types IndexersBySchedule(const ConfigFields& fields, int64_t num_layers) {
  const int64_t freq = fields.IntOr("index_topk_freq", 1, kMaxLayerCount, 1);
  const int64_t offset = fields.IntOr("index_skip_topk_offset", 0, kMaxLayerCount, 2);
  Types types;
  for (int64_t i = 0; i < num_layers; ++i) {
    const bool full = std::max<int64_t>(i - offset + 1, 0) % freq == 0;
    types.push_back(full ? IndexerType::kFull : IndexerType::kShared);
  }
  return types;
}

// "FFSS" or ["full", ...] as a list of words; nothing when the field is not there.
std::optional<std::vector<std::string>> PatternWords(const ConfigFields& fields) {
  const Json* pattern = fields.Find("index_topk_pattern");
  if (pattern == nullptr || !pattern->is_string())
    return fields.OptionalStrings("index_topk_pattern");
  std::vector<std::string> words;
  for (char letter : pattern->get_ref<const std::string&>()) words.emplace_back(1, letter);
  return words;
}

}  // namespace

void ReadMlpLayers(const ConfigFields& fields, ModelConfig& config) {
  const bool has_count = fields.Has("first_k_dense_replace");
  if (const auto types = fields.OptionalStrings("mlp_layer_types")) {
    config.is_moe = MoeByType(fields, *types, config);
    if (has_count && !config.is_moe.empty() &&
        config.is_moe != MoeByCount(fields, config.num_layers)) {
      fields.Warning(
          "mlp_layer_types and first_k_dense_replace disagree; mlp_layer_types is followed");
    }
  } else if (!fields.Has("mlp_layer_types")) {
    if (has_count) {
      config.is_moe = MoeByCount(fields, config.num_layers);
    } else {
      fields.Error(
          "neither mlp_layer_types nor first_k_dense_replace is there: which layers are MoE?");
    }
  }
  config.is_moe.resize(static_cast<size_t>(config.num_layers), true);
  config.is_moe.resize(static_cast<size_t>(config.total_layers()), true);
}

void ReadIndexerLayers(const ConfigFields& fields, ModelConfig& config) {
  const size_t total = static_cast<size_t>(config.total_layers());
  config.indexer_types.clear();
  if (!config.has_indexer()) {
    config.indexer_types.assign(total, IndexerType::kNone);
    return;
  }
  if (fields.Has("indexer_types")) {
    if (const auto words = fields.OptionalStrings("indexer_types")) {
      config.indexer_types = IndexersByName(fields, "indexer_types", *words, config);
    }
  } else if (fields.Has("index_topk_pattern")) {
    if (const auto words = PatternWords(fields)) {
      config.indexer_types = IndexersByName(fields, "index_topk_pattern", *words, config);
    }
  } else {
    config.indexer_types = IndexersBySchedule(fields, config.num_layers);
  }
  if (!config.indexer_types.empty() && config.indexer_types[0] != IndexerType::kFull) {
    fields.Error("layer 0 shares its indexer, but there is no earlier layer to share with");
  }
  config.indexer_types.resize(static_cast<size_t>(config.num_layers), IndexerType::kFull);
  config.indexer_types.resize(total, IndexerType::kFull);
}

}  // namespace quern::checkpoint
