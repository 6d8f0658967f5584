#include "quern/checkpoint/precision_plan.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "quern/base/json.h"
#include "quern/checkpoint/dialects/dialects.h"
#include "quern/checkpoint/precision_plan_extras.h"
#include "quern/checkpoint/precision_plan_report.h"
#include "quern/checkpoint/precision_plan_scales.h"
#include "quern/checkpoint/precision_plan_stored.h"
#include "quern/checkpoint/signature.h"

namespace quern::checkpoint {
namespace {

// "model.layers.0.mlp.gate" of "model.layers.0.mlp.gate.weight"; other names are their own.
std::string_view ModuleOf(std::string_view name) {
  constexpr std::string_view kWeight = ".weight";
  return name.ends_with(kWeight) ? name.substr(0, name.size() - kWeight.size()) : name;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t dim : shape) text += (text.empty() ? "" : ", ") + std::to_string(dim);
  return "[" + text + "]";
}

// The rules of a checkpoint, from config.json or, where that has none, from modelopt's own file.
std::unique_ptr<Dialect> LoadRules(const Checkpoint& checkpoint, const ModelConfig& config,
                                   Problems& problems) {
  const Json& json = config.quantization;
  const bool bare_modelopt = json.is_object() && !json.contains("quant_algo") &&
                             !json.contains("quantization") && json.contains("quant_method") &&
                             json["quant_method"] == "modelopt";
  if (json.is_null() || bare_modelopt) {
    const std::string file = "hf_quant_config.json";
    const Result<Json> own = ReadJsonFile(checkpoint.directory() + "/" + file);
    if (own.ok()) return ParseQuantization(*own, file, problems);
    if (own.status().code() != StatusCode::kNotFound) problems.Error("{}", own.status().message());
  }
  return ParseQuantization(json, "config.json: quantization_config", problems);
}

class Resolver {
 public:
  Resolver(const Checkpoint& checkpoint, const ModelConfig& config, Dialect& dialect,
           const PlanOptions& options, Problems& problems)
      : checkpoint_(checkpoint),
        config_(config),
        dialect_(dialect),
        options_(options),
        problems_(problems),
        stored_(checkpoint) {}

  PrecisionPlan Resolve(const std::vector<ExpectedTensor>& expected) {
    plan_.dialect = dialect_.name();
    plan_.tensors.reserve(expected.size());
    for (const ExpectedTensor& tensor : expected) ResolveOne(tensor);
    ReportMissing(expected);
    for (std::string& message : errors_.Take()) problems_.Error("{}", message);
    for (std::string& message : warnings_.Take()) problems_.Warning("{}", message);
    JudgeExtras(checkpoint_, config_, stored_, options_.read_scales, plan_.notes, problems_);
    dialect_.Report(problems_);
    AddNotes();
    for (size_t i = 0; i < stored_.tensors().size(); ++i) plan_.num_stored_used += stored_.used(i);
    IndexByName();
    return std::move(plan_);
  }

 private:
  void ResolveOne(const ExpectedTensor& expected) {
    ResolvedTensor out;
    out.expected = expected;
    const std::string_view module = ModuleOf(expected.name);
    // Asked for every module, so that an entry that names a norm or a router counts as one that
    // matches.
    Rule rule = dialect_.Decide(module);
    if (expected.shape.size() == 2) {
      ResolveMatrix(module, std::move(rule), out);
    } else {
      ResolveVector(module, out);
    }
    plan_.tensors.push_back(std::move(out));
  }

  void ResolveVector(std::string_view module, ResolvedTensor& out) {
    const std::string& name = out.expected.name;
    out.rule = "never quantized";
    out.weight = stored_.Take(name);
    if (out.weight == nullptr) return;
    const Part part = WholePart(out.weight, "weight");
    out.signature = DescribePart(part);
    Signature signature = ReadVector(part);
    if (signature.error.empty() && out.weight->shape != out.expected.shape) {
      signature.error = "wrong shape: want " + ShapeText(out.expected.shape);
    }
    if (!signature.error.empty()) return AddBad(out, signature.error);
    out.format = signature.stored;
    out.stored_bytes = out.weight->bytes;
    out.matrix = {.format = signature.stored,
                  .rows = 1,
                  .cols = out.expected.shape.empty() ? 1 : out.expected.shape[0],
                  .data = checkpoint_.Bytes(*out.weight).data(),
                  .row_bytes = static_cast<int64_t>(out.weight->bytes)};
    if (module.ends_with("e_score_correction_bias") && out.format != WeightFormat::kF32) {
      warnings_.Add(
          "bias", name,
          fmt::format("{} is stored as {}; the router's bias needs F32: its values differ by less "
                      "than {} can tell, so tokens go to other experts than in training",
                      name, out.signature, DtypeName(out.weight->dtype)));
    }
  }

  static Signature ReadVector(const Part& part) {
    Signature signature;
    switch (part.dtype()) {
      case Dtype::kF32:
        signature.stored = WeightFormat::kF32;
        break;
      case Dtype::kBf16:
        signature.stored = WeightFormat::kBf16;
        break;
      case Dtype::kF16:
        signature.stored = WeightFormat::kF16;
        break;
      default:
        signature.error = "want BF16, F16 or F32";
    }
    return signature;
  }

  void ResolveMatrix(std::string_view module, Rule rule, ResolvedTensor& out) {
    const int64_t rows = out.expected.shape[0], cols = out.expected.shape[1];
    if (!out.expected.quantizable) rule = {.wanted = {}, .text = "never quantized"};
    std::optional<FoundModule> found = stored_.TakeModule(module);
    if (!found) {
      const int64_t block_rows = rule.wanted.block_rows > 0 ? rule.wanted.block_rows : 128;
      found = stored_.TakeExpert(module, config_.num_experts, rows, cols, block_rows);
    }
    if (!found) {
      out.rule = rule.text;
      return;
    }
    if (!found->stored_module.empty()) {
      // A rule that names the fused tensor itself is the one for all its parts.
      Rule fused_rule = dialect_.Decide(found->stored_module);
      if (!fused_rule.fallback) rule = std::move(fused_rule);
    }
    out.rule = std::move(rule.text);
    out.weight = found->parts.weight.tensor;
    if (!found->error.empty()) return AddError("fused", out.weight->name, found->error);
    const Signature signature = ReadSignature(found->parts, rows, cols, rule.wanted);
    out.signature = signature.text;
    if (!signature.error.empty()) return AddBad(out, signature.error);
    out.format = signature.stored;
    if (signature.format != rule.wanted) Disagree(module, rule, signature, out);
    out.matrix = MakeMatrix(checkpoint_, found->parts, signature, rows, cols, options_.read_scales,
                            plan_.converted_scales);
    out.stored_bytes = StoredBytes(out.matrix, found->parts);
    if (options_.read_scales) CheckScales(out, found->parts);
  }

  void CheckScales(const ResolvedTensor& out, const StoredParts& parts) {
    const BadScale bad = FindBadScale(out.matrix);
    if (bad.what.empty()) return;
    const Part& part = bad.in_global ? parts.global_scale : parts.scale;
    AddError("scale", out.expected.name,
             fmt::format("{}: {} in {}; the file is damaged or was not quantized right",
                         out.expected.name, bad.what, part.tensor->name));
  }

  void Disagree(std::string_view module, const Rule& rule, const Signature& signature,
                const ResolvedTensor& out) {
    const std::string& name = out.expected.name;
    const std::string stored = signature.format.quantized
                                   ? WantedName(signature.format)
                                   : std::string(WeightFormatName(signature.stored));
    const std::string key = NameKind(name) + WantedName(rule.wanted) + stored;
    if (!out.expected.quantizable) {
      return AddError(key, name,
                      fmt::format("{}: stored as {} ({}), but this tensor is never quantized", name,
                                  stored, signature.text));
    }
    const std::string both = fmt::format("{}: the rule says {} ({}), the file holds {} ({})", name,
                                         WantedName(rule.wanted), out.rule, stored, signature.text);
    if (options_.trust_signatures) {
      warnings_.Add(key, name, both + "; going by the file, as --trust-signatures asks");
      return;
    }
    AddError(key, name,
             fmt::format("{}; {}, or go by the file with --trust-signatures", both,
                         Fix(module, rule, signature)));
  }

  std::string Fix(std::string_view module, const Rule& rule, const Signature& signature) const {
    if (dialect_.skip_field().empty()) {
      return "config.json has lost its quantization_config: restore it";
    }
    if (!signature.format.quantized) {
      return fmt::format("if the file is right, list \"{}\" in {} of quantization_config", module,
                         dialect_.skip_field());
    }
    return rule.fallback ? "if the file is right, correct quantization_config"
                         : "if the file is right, take that entry out of quantization_config";
  }

  void AddError(const std::string& kind, const std::string& name, std::string message) {
    errors_.Add(kind + ' ' + NameKind(name), name, std::move(message));
  }
  void AddBad(const ResolvedTensor& out, const std::string& what) {
    AddError("bad " + NameKind(what), out.expected.name,
             fmt::format("{}: holds {}: {} (rule: {})", out.expected.name, out.signature, what,
                         out.rule));
  }

  void ReportMissing(const std::vector<ExpectedTensor>& expected);
  void AddNotes();
  void IndexByName() {
    plan_.by_name.resize(plan_.tensors.size());
    std::iota(plan_.by_name.begin(), plan_.by_name.end(), 0u);
    std::sort(plan_.by_name.begin(), plan_.by_name.end(), [this](uint32_t a, uint32_t b) {
      return plan_.tensors[a].expected.name < plan_.tensors[b].expected.name;
    });
  }

  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  Dialect& dialect_;
  const PlanOptions& options_;
  Problems& problems_;
  StoredTensors stored_;
  PrecisionPlan plan_;
  GroupedMessages errors_, warnings_;
};

// What of a layer is missing: everything, its indexer, or single tensors. The first two are one
// fault each, with one cause.
void Resolver::ReportMissing(const std::vector<ExpectedTensor>& expected) {
  constexpr std::string_view kIndexer = ".self_attn.indexer.";
  struct Layer {
    int64_t wanted = 0, missing = 0, indexer_wanted = 0, indexer_missing = 0;
  };
  std::vector<Layer> layers(static_cast<size_t>(std::max<int64_t>(config_.total_layers(), 0)));
  const auto layer_of = [&](const ExpectedTensor& tensor) {
    const bool known = tensor.layer >= 0 && static_cast<size_t>(tensor.layer) < layers.size();
    return known ? &layers[static_cast<size_t>(tensor.layer)] : nullptr;
  };
  for (size_t i = 0; i < expected.size(); ++i) {
    Layer* layer = layer_of(expected[i]);
    if (layer == nullptr) continue;
    const bool missing = plan_.tensors[i].weight == nullptr;
    const bool indexer = expected[i].name.find(kIndexer) != std::string::npos;
    ++layer->wanted;
    layer->missing += missing;
    layer->indexer_wanted += indexer;
    layer->indexer_missing += indexer && missing;
  }
  std::set<int> empty_layers, no_indexer;
  GroupedMessages single;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (plan_.tensors[i].weight != nullptr) continue;
    const ExpectedTensor& tensor = expected[i];
    const Layer* layer = layer_of(tensor);
    if (layer != nullptr && layer->missing == layer->wanted) {
      empty_layers.insert(tensor.layer);
    } else if (layer != nullptr && layer->indexer_missing == layer->indexer_wanted &&
               tensor.name.find(kIndexer) != std::string::npos) {
      no_indexer.insert(tensor.layer);
    } else {
      single.Add(NameKind(tensor.name), tensor.name,
                 fmt::format("{} is missing, want {}; is the download complete?", tensor.name,
                             ShapeText(tensor.shape)));
    }
  }
  for (int64_t layer = config_.num_layers; layer < config_.total_layers(); ++layer) {
    if (empty_layers.erase(static_cast<int>(layer)) == 0) continue;
    problems_.Error(
        "MTP layer {}: config.json says num_nextn_predict_layers {}, but the file has none of its "
        "{} tensors (some tools "
        "drop them when saving); set num_nextn_predict_layers to 0 to serve without it",
        layer, config_.num_mtp_layers, layers[static_cast<size_t>(layer)].wanted);
  }
  if (!empty_layers.empty()) {
    problems_.Error("all tensors of layers {} are missing; is the download complete?",
                    FormatLayers(empty_layers));
  }
  if (!no_indexer.empty()) {
    problems_.Error(
        "indexer tensors are missing in layers {}, which own an indexer by config.json "
        "(indexer_types, or "
        "index_topk_freq with index_skip_topk_offset); config and weights are not of one model",
        FormatLayers(no_indexer));
  }
  for (std::string& message : single.Take()) problems_.Error("{}", message);
}

void Resolver::AddNotes() {
  if (const std::string activations = dialect_.activations(); !activations.empty()) {
    plan_.notes.push_back(
        fmt::format("the checkpoint asks for quantized activations ({}); quern multiplies MXFP4 "
                    "experts with int8 activations (--expert-activations) and keeps them as they "
                    "are elsewhere, which is more accurate and gives other bits",
                    activations));
  }
  if (stored_.num_unused_companions() > 0) {
    plan_.notes.push_back(
        fmt::format("{} scales of activations (input_scale and the like) are not used",
                    stored_.num_unused_companions()));
  }
  if (stored_.num_aliases() > 0) {
    plan_.notes.push_back(
        fmt::format("{} scales are called weight_quantizer.scale; read as weight_scale",
                    stored_.num_aliases()));
  }
}

}  // namespace

const ResolvedTensor* PrecisionPlan::Find(std::string_view name) const {
  const auto it = std::lower_bound(
      by_name.begin(), by_name.end(), name,
      [this](uint32_t i, std::string_view wanted) { return tensors[i].expected.name < wanted; });
  if (it == by_name.end() || tensors[*it].expected.name != name) return nullptr;
  return &tensors[*it];
}

PrecisionPlan ResolvePrecisionPlan(const Checkpoint& checkpoint, const ModelConfig& config,
                                   const std::vector<ExpectedTensor>& expected,
                                   const PlanOptions& options, Problems& problems) {
  const std::unique_ptr<Dialect> dialect = LoadRules(checkpoint, config, problems);
  // Without rules every tensor would look wrong: one error, already added, says it better.
  if (dialect == nullptr) return {};
  return Resolver(checkpoint, config, *dialect, options, problems).Resolve(expected);
}

}  // namespace quern::checkpoint
