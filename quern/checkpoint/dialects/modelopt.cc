// NVIDIA modelopt: one `quant_algo` for all Linear modules but the excluded ones, or
// MIXED_PRECISION with one per module in `quantized_layers`. Stands in config.json's
// quantization_config or in hf_quant_config.json's "quantization".
#include <optional>
#include <utility>

#include "quern/checkpoint/config_fields.h"
#include "quern/checkpoint/dialects/dialects.h"
#include "quern/checkpoint/dialects/name_rules.h"

namespace quern::checkpoint {
namespace {

constexpr unsigned kNames = match::kExact | match::kPrefix | match::kGlob | match::kGlobTree;

std::optional<Wanted> ParseAlgo(const std::string& algo, const ConfigFields& fields) {
  Wanted wanted{.quantized = true};
  if (algo == "NVFP4") {
    const int64_t group = fields.IntOr("group_size", 1, 1 << 20, 16);
    if (group != 16) {
      fields.Error("group_size is {}, want 16 for NVFP4", group);
      return std::nullopt;
    }
    wanted.format = WeightFormat::kNvfp4;
  } else if (algo == "FP8") {
    wanted.format = WeightFormat::kFp8Tensor;
  } else if (algo == "FP8_PER_CHANNEL_PER_TOKEN") {
    wanted.format = WeightFormat::kFp8Channel;
  } else if (algo == "FP8_PB_WO") {
    wanted = {
        .quantized = true, .format = WeightFormat::kFp8Block, .block_rows = 128, .block_cols = 128};
  } else {
    fields.Error(
        "quant_algo {} is not supported; want NVFP4, FP8, FP8_PER_CHANNEL_PER_TOKEN, FP8_PB_WO or "
        "MIXED_PRECISION of these",
        ShowJson(Json(algo)));
    return std::nullopt;
  }
  return wanted;
}

class Modelopt : public Dialect {
 public:
  Modelopt() : exclude_("exclude_modules", kNames), layers_("quantized_layers", kNames) {}

  bool Parse(const Json& json, const std::string& file, Problems& problems);

  std::string name() const override { return "modelopt (" + algo_ + ")"; }
  Rule Decide(std::string_view module) override {
    const int excluded = exclude_.Find(module);
    const int layer = layers_.Find(module);
    if (excluded >= 0) return {.wanted = {}, .text = exclude_.Label(excluded)};
    if (layer >= 0) {
      return {.wanted = layer_wanted_[static_cast<size_t>(layer)], .text = layers_.Label(layer)};
    }
    if (!rest_) return {.wanted = {}, .text = "not in quantized_layers", .fallback = true};
    return {.wanted = *rest_, .text = "quant_algo " + algo_, .fallback = true};
  }
  std::string skip_field() const override { return exclude_.field(); }
  std::string activations() const override { return algo_ == "FP8_PB_WO" ? "" : algo_; }
  void Report(Problems& problems) const override {
    exclude_.Report(problems);
    layers_.Report(problems);
  }

 private:
  bool ParseMixed(const ConfigFields& fields, const std::string& file, Problems& problems);

  std::string algo_;
  std::optional<Wanted> rest_;  // nothing under MIXED_PRECISION
  NameRules exclude_;
  NameRules layers_;
  std::vector<Wanted> layer_wanted_;
};

bool Modelopt::ParseMixed(const ConfigFields& fields, const std::string& file, Problems& problems) {
  const Json* layers = fields.Find("quantized_layers");
  if (layers == nullptr || !layers->is_object()) {
    fields.Error(
        "quantized_layers is {}, want an object: MIXED_PRECISION has one quant_algo per module",
        layers == nullptr ? "missing" : ShowJson(*layers));
    return false;
  }
  bool ok = true;
  for (const auto& [key, value] : layers->items()) {
    const ConfigFields layer(
        value, fmt::format("{}: quantized_layers[{}]", file, ShowJson(Json(key))), problems);
    const auto wanted = ParseAlgo(layer.OptionalString("quant_algo").value_or(""), layer);
    ok &= wanted.has_value();
    layers_.Add(key, problems, /*key=*/true);
    layer_wanted_.push_back(wanted.value_or(Wanted{}));
  }
  return ok;
}

bool Modelopt::Parse(const Json& json, const std::string& file, Problems& problems) {
  const auto inner = json.find("quantization");
  const bool nested = inner != json.end() && inner->is_object();
  const std::string where = nested ? file + ".quantization" : file;
  const ConfigFields fields(nested ? *inner : json, where, problems);
  algo_ = fields.OptionalString("quant_algo").value_or("");
  if (algo_.empty()) {
    fields.Error("quant_algo is missing, want NVFP4, FP8 or MIXED_PRECISION");
    return false;
  }
  if (algo_ == "MIXED_PRECISION") {
    if (!ParseMixed(fields, where, problems)) return false;
  } else {
    rest_ = ParseAlgo(algo_, fields);
    if (!rest_) return false;
  }
  // config.json says "ignore", hf_quant_config.json "exclude_modules".
  const char* list = fields.Has("exclude_modules") ? "exclude_modules" : "ignore";
  exclude_ = NameRules(list, kNames);
  for (std::string& entry : fields.OptionalStrings(list).value_or(std::vector<std::string>{})) {
    exclude_.Add(std::move(entry), problems);
  }
  return true;
}

}  // namespace

std::unique_ptr<Dialect> ParseModelopt(const Json& json, const std::string& file,
                                       Problems& problems) {
  auto dialect = std::make_unique<Modelopt>();
  if (!dialect->Parse(json, file, problems)) return nullptr;
  return dialect;
}

}  // namespace quern::checkpoint
