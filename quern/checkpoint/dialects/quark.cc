// AMD Quark (`quant_method: quark`). Resolution order: exclude, layer_quant_config,
// layer_type_quant_config, global_quant_config. Names are checkpoint names.
#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "quern/checkpoint/config_fields.h"
#include "quern/checkpoint/dialects/dialects.h"
#include "quern/checkpoint/dialects/name_rules.h"

namespace quern::checkpoint {
namespace {

// A layer config's "weight" (or other tensor), understood.
struct Spec {
  Wanted wanted;
  std::string text;  // "fp4 per_group 32"
};

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::optional<Spec> ParseFp4(const ConfigFields& fields, const std::string& qscheme) {
  const int64_t group = fields.IntOr("group_size", 1, 1 << 20, 32);
  const std::string scale = Lower(fields.OptionalString("scale_format").value_or("e8m0"));
  if (qscheme != "per_group" || group != 32 || scale != "e8m0") {
    fields.Error(
        "fp4 with qscheme {}, group_size {}, scale_format {} is not supported; want per_group, 32, "
        "e8m0 (MXFP4), or the two-step list of NVFP4",
        qscheme, group, scale);
    return std::nullopt;
  }
  return Spec{{.quantized = true, .format = WeightFormat::kMxfp4}, "fp4 per_group 32"};
}

std::optional<Spec> ParseFp8Spec(const ConfigFields& fields, const Json& json,
                                 const std::string& qscheme) {
  if (qscheme == "per_tensor") {
    return Spec{{.quantized = true, .format = WeightFormat::kFp8Tensor}, "fp8_e4m3 per_tensor"};
  }
  if (qscheme == "per_channel") {
    const int64_t axis = fields.IntOr("ch_axis", -8, 8, 0);
    if (axis != 0 && axis != -2) {
      fields.Error("ch_axis is {}, want 0: one scale per row of the weight", axis);
      return std::nullopt;
    }
    return Spec{{.quantized = true, .format = WeightFormat::kFp8Channel}, "fp8_e4m3 per_channel"};
  }
  const Json* block = fields.Find("block_size");
  int64_t sides[2] = {0, 0};
  if (block != nullptr && block->is_array() && block->size() == 2) {
    for (size_t i = 0; i < 2; ++i) {
      const Json& side = (*block)[i];
      if (side.is_number_integer()) sides[i] = side.get<int64_t>();
    }
  }
  if (qscheme != "per_block" || sides[0] < 1 || sides[1] < 1 || sides[0] > 65536 ||
      sides[1] > 65536) {
    fields.Error(
        "fp8_e4m3 with qscheme {}, block_size {} is not supported; want per_tensor, per_channel, "
        "or per_block with "
        "block_size [rows, columns]",
        qscheme, json.contains("block_size") ? ShowJson(json["block_size"]) : "missing");
    return std::nullopt;
  }
  return Spec{{.quantized = true,
               .format = WeightFormat::kFp8Block,
               .block_rows = sides[0],
               .block_cols = sides[1]},
              fmt::format("fp8_e4m3 per_block {}x{}", sides[0], sides[1])};
}

// NVFP4 as Quark writes it: fp4 in groups of 16, whose scales are themselves fp8 with one scale for
// all.
std::optional<Spec> ParseTwoSteps(const Json& json, const std::string& file, Problems& problems) {
  const auto is = [](const Json& step, const char* dtype, const char* qscheme) {
    return step.is_object() && step.value("dtype", Json()) == dtype &&
           step.value("qscheme", Json()) == qscheme;
  };
  if (json.size() == 2 && is(json[0], "fp4", "per_group") &&
      json[0].value("group_size", Json()) == 16 && is(json[1], "fp8_e4m3", "per_tensor") &&
      json[1].value("is_scale_quant", Json()) == true) {
    return Spec{{.quantized = true, .format = WeightFormat::kNvfp4},
                "fp4 per_group 16, fp8_e4m3 scales"};
  }
  problems.Error(
      "{} is a list of {} steps; the one supported is NVFP4: fp4 per_group with group_size 16, "
      "then fp8_e4m3 per_tensor "
      "with is_scale_quant",
      file, json.size());
  return std::nullopt;
}

// `json` is one tensor's spec; null means it is not quantized.
std::optional<Spec> ParseSpec(const Json& json, const std::string& file, Problems& problems) {
  if (json.is_null()) return Spec{{}, "not quantized"};
  if (json.is_array()) return ParseTwoSteps(json, file, problems);
  if (!json.is_object()) {
    problems.Error("{} is {}, want an object with dtype and qscheme", file, ShowJson(json));
    return std::nullopt;
  }
  if (json.empty()) return Spec{{}, "not quantized"};
  const ConfigFields fields(json, file, problems);
  const std::string dtype = Lower(fields.OptionalString("dtype").value_or(""));
  const std::string qscheme = Lower(fields.OptionalString("qscheme").value_or(""));
  if (dtype == "bfloat16" || dtype == "float16" || dtype == "float32") return Spec{{}, dtype};
  static constexpr const char* kSchemes[] = {"per_tensor", "per_channel", "per_group", "per_block"};
  if (std::find(std::begin(kSchemes), std::end(kSchemes), qscheme) == std::end(kSchemes)) {
    fields.Error(
        "qscheme is \"{}\"; want per_group (fp4) or per_tensor, per_channel, per_block (fp8_e4m3)",
        qscheme);
    return std::nullopt;
  }
  if (dtype == "fp4") return ParseFp4(fields, qscheme);
  if (dtype == "fp8_e4m3") return ParseFp8Spec(fields, json, qscheme);
  if (dtype == "mx" && fields.OptionalString("mx_element_dtype").value_or("") == "fp4") {
    return ParseFp4(fields, qscheme);
  }
  fields.Error("dtype is \"{}\"; want fp4 (MXFP4, NVFP4), fp8_e4m3, or bfloat16, float16, float32",
               dtype);
  return std::nullopt;
}

// The weight's spec of one layer config: {"weight": {...}, "input_tensors": {...}, ...}.
std::optional<Spec> ParseLayer(const Json& json, const std::string& file, Problems& problems) {
  if (json.is_null()) return Spec{{}, "not quantized"};
  if (!json.is_object()) {
    problems.Error("{} is {}, want an object with weight", file, ShowJson(json));
    return std::nullopt;
  }
  const auto weight = json.find("weight");
  return ParseSpec(weight == json.end() ? Json() : *weight, file + ".weight", problems);
}

bool IsLinearType(std::string_view type) {
  return type == "Linear" || type.ends_with(".Linear") || type.ends_with(".Linear'>");
}

class Quark : public Dialect {
 public:
  Quark()
      : exclude_("exclude",
                 match::kExact | match::kPrefix | match::kGlob | match::kGlobTree | match::kRegex),
        layers_("layer_quant_config", match::kExact | match::kSubstring | match::kGlob) {}

  // False when the rules are of no use.
  bool Parse(const Json& json, const std::string& file, Problems& problems);

  std::string name() const override { return "quark"; }
  Rule Decide(std::string_view module) override {
    const int excluded = exclude_.Find(module);
    const int layer = layers_.Find(module);
    if (excluded >= 0) return {.wanted = {}, .text = exclude_.Label(excluded)};
    if (layer >= 0) {
      const Spec& spec = layer_specs_[static_cast<size_t>(layer)];
      return {.wanted = spec.wanted, .text = layers_.Label(layer) + ": " + spec.text};
    }
    const Spec& rest = linear_ ? *linear_ : global_;
    return {.wanted = rest.wanted,
            .text = (linear_ ? "layer_type_quant_config: " : "global_quant_config: ") + rest.text,
            .fallback = true};
  }
  std::string skip_field() const override { return exclude_.field(); }
  std::string activations() const override { return activations_; }
  void Report(Problems& problems) const override {
    exclude_.Report(problems);
    layers_.Report(problems);
  }

 private:
  bool ParseLayerConfigs(const ConfigFields& fields, const std::string& file, Problems& problems);

  NameRules exclude_;
  NameRules layers_;
  std::vector<Spec> layer_specs_;  // by index in layers_
  std::optional<Spec> linear_;     // of layer_type_quant_config
  Spec global_;
  std::string activations_;
};

bool CheckExport(const ConfigFields& fields, const std::string& file, Problems& problems) {
  const Json* json = fields.Find("export");
  if (json == nullptr) return true;
  const ConfigFields exported(*json, file + ": export", problems);
  const std::string pack = exported.OptionalString("pack_method").value_or("reorder");
  const std::string format = exported.OptionalString("weight_format").value_or("real_quantized");
  if (pack != "reorder" && pack != "order") {
    exported.Error("pack_method is {}; want \"reorder\" or \"order\"", ShowJson(Json(pack)));
    return false;
  }
  if (format != "real_quantized") {
    exported.Error("weight_format is {}; want \"real_quantized\" (codes and scales in the file)",
                   ShowJson(Json(format)));
    return false;
  }
  return true;
}

// Rotations that the model must also apply while it runs change what the stored weights mean.
bool CheckAlgorithms(const ConfigFields& fields, const std::string& file, Problems& problems) {
  const Json* json = fields.Find("algo_config");
  if (json == nullptr) return true;
  const Json list = json->is_array() ? *json : Json::array({*json});
  for (const Json& algorithm : list) {
    if (!algorithm.is_object()) continue;
    for (const auto& [key, value] : algorithm.items()) {
      if (key.rfind("online_", 0) == 0 && value.is_boolean() && value.get<bool>()) {
        problems.Error("{}: algo_config asks for {}: rotations at run time are not supported", file,
                       ShowJson(Json(key)));
        return false;
      }
    }
  }
  return true;
}

bool Quark::ParseLayerConfigs(const ConfigFields& fields, const std::string& file,
                              Problems& problems) {
  bool ok = true;
  if (const Json* layers = fields.Find("layer_quant_config"); layers && layers->is_object()) {
    for (const auto& [key, value] : layers->items()) {
      const auto spec = ParseLayer(
          value, fmt::format("{}: layer_quant_config[{}]", file, ShowJson(Json(key))), problems);
      ok &= spec.has_value();
      layers_.Add(key, problems, /*key=*/true);
      layer_specs_.push_back(spec.value_or(Spec{}));
    }
  } else if (layers != nullptr) {
    fields.Error("layer_quant_config is {}, want an object", ShowJson(*layers));
    ok = false;
  }
  if (const Json* types = fields.Find("layer_type_quant_config"); types && types->is_object()) {
    for (const auto& [key, value] : types->items()) {
      const auto spec = ParseLayer(
          value, fmt::format("{}: layer_type_quant_config[{}]", file, ShowJson(Json(key))),
          problems);
      ok &= spec.has_value();
      if (IsLinearType(key) && !linear_) linear_ = spec;
    }
  } else if (types != nullptr) {
    fields.Error("layer_type_quant_config is {}, want an object", ShowJson(*types));
    ok = false;
  }
  return ok;
}

bool Quark::Parse(const Json& json, const std::string& file, Problems& problems) {
  const ConfigFields fields(json, file, problems);
  bool ok = CheckExport(fields, file, problems);
  ok &= CheckAlgorithms(fields, file, problems);
  const Json* global = fields.Find("global_quant_config");
  const auto spec = ParseLayer(global ? *global : Json(), file + ": global_quant_config", problems);
  ok &= spec.has_value();
  if (spec) global_ = *spec;
  if (global && global->is_object() && global->contains("input_tensors")) {
    // Only for people: activations that quern does not know are no reason to refuse the weights.
    Problems ignored;
    const Json& input = (*global)["input_tensors"];
    const auto input_spec = ParseSpec(input, file, ignored);
    if (input_spec && input_spec->wanted.quantized) activations_ = input_spec->text;
    if (!input_spec) activations_ = "another format";
  }
  ok &= ParseLayerConfigs(fields, file, problems);
  for (std::string& entry :
       fields.OptionalStrings("exclude").value_or(std::vector<std::string>{})) {
    exclude_.Add(std::move(entry), problems);
  }
  return ok;
}

}  // namespace

std::unique_ptr<Dialect> ParseQuark(const Json& json, const std::string& file, Problems& problems) {
  auto quark = std::make_unique<Quark>();
  if (!quark->Parse(json, file, problems)) return nullptr;
  return quark;
}

}  // namespace quern::checkpoint
