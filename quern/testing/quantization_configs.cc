// The quantization_config of each layout, in the form its exporter writes.
#include <string>
#include <vector>

#include "quern/model/expected_tensors.h"
#include "quern/testing/layouts.h"
#include "quern/testing/tensor_roles.h"

namespace quern::testing {
namespace {

using checkpoint::ExpectedTensor;
using checkpoint::ModelConfig;

std::string MtpPrefix(const ModelConfig& config) {
  return fmt::format("model.layers.{}", config.num_layers);
}

// The official FP8 list: every module and parameter left alone, and the name "indexers_proj", which
// no file has: it stands there where "indexer.weights_proj" was meant.
Json OfficialFp8(const ModelConfig& config) {
  Json skip = Json::array();
  for (const ExpectedTensor& tensor : model::ExpectedTensors(config)) {
    const Role role = RoleOf(tensor);
    if (role == Role::kIndexWeights) {
      skip.push_back(fmt::format("model.layers.{}.self_attn.indexers_proj", tensor.layer));
    } else if (!tensor.quantizable || role == Role::kEhProj || role == Role::kLmHead) {
      if (tensor.name.find("k_norm.bias") == std::string::npos)
        skip.push_back(ModuleOf(tensor.name));
    }
  }
  return {{"quant_method", "fp8"},
          {"fmt", "e4m3"},
          {"activation_scheme", "dynamic"},
          {"weight_block_size", {kFp8BlockSize, kFp8BlockSize}},
          {"modules_to_not_convert", std::move(skip)}};
}

// One tensor specification in Quark's export, all keys as its tool writes them.
Json QuarkSpec(const char* dtype, const char* scheme, bool is_dynamic) {
  const bool is_fp4 = std::string_view(dtype) == "fp4";
  Json spec = {{"dtype", dtype},
               {"qscheme", scheme},
               {"group_size", is_fp4 ? Json(32) : Json(nullptr)},
               {"ch_axis", is_fp4 ? Json(-1) : Json(nullptr)},
               {"is_dynamic", is_dynamic},
               {"scale_format", is_fp4 ? Json("e8m0") : Json(nullptr)},
               {"scale_calculation_mode", is_fp4 ? Json("even") : Json(nullptr)},
               {"scale_type", "float"},
               {"round_method", "half_even"},
               {"symmetric", is_fp4 ? Json(nullptr) : Json(true)},
               {"observer_cls", is_fp4 ? "PerBlockMXObserver" : "PerTensorMinMaxObserver"},
               {"is_scale_quant", false},
               {"mx_element_dtype", nullptr}};
  if (std::string_view(scheme) == "per_channel") spec["ch_axis"] = is_dynamic ? 1 : 0;
  if (std::string_view(scheme) == "per_block") spec["block_size"] = {kFp8BlockSize, kFp8BlockSize};
  return spec;
}

Json QuarkModule(Json weight, Json input) {
  return {{"weight", std::move(weight)},
          {"input_tensors", std::move(input)},
          {"output_tensors", nullptr},
          {"bias", nullptr},
          {"target_device", nullptr}};
}

Json Quark(Json global, Json by_layer, Json exclude) {
  return {{"quant_method", "quark"},
          {"version", "0.12"},
          {"quant_mode", "eager_mode"},
          {"algo_config", nullptr},
          {"global_quant_config", std::move(global)},
          {"layer_quant_config", std::move(by_layer)},
          {"layer_type_quant_config", Json::object()},
          {"exclude", std::move(exclude)},
          {"kv_cache_quant_config", Json::object()},
          {"kv_cache_post_rope", false},
          {"softmax_quant_spec", nullptr},
          {"export",
           {{"kv_cache_group", Json::array()},
            {"min_kv_scale", 0.0},
            {"pack_method", "reorder"},
            {"weight_format", "real_quantized"},
            {"weight_merge_groups", nullptr}}}};
}

// Globs expanded to names at export: each Linear module (the router is none) that stays bf16, leaf
// by leaf.
Json QuarkMxfp4(const ModelConfig& config, bool fp8_attention) {
  Json exclude = Json::array({"lm_head"});
  for (const ExpectedTensor& tensor : model::ExpectedTensors(config)) {
    const Role role = RoleOf(tensor);
    const bool is_linear = tensor.quantizable || role == Role::kIndexWeights;
    if (!is_linear || role == Role::kLmHead) continue;
    const bool is_trunk = tensor.layer < config.num_layers;
    const bool is_expert = role == Role::kRoutedExpert || role == Role::kSharedExpert;
    const bool is_quantized = is_expert || (fp8_attention && role == Role::kAttention);
    if (!is_trunk || !is_quantized) exclude.push_back(ModuleOf(tensor.name));
  }
  Json by_layer = Json::object();
  if (fp8_attention) {
    by_layer["*self_attn*"] = QuarkModule(QuarkSpec("fp8_e4m3", "per_channel", false),
                                          QuarkSpec("fp8_e4m3", "per_channel", true));
  }
  return Quark(
      QuarkModule(QuarkSpec("fp4", "per_group", false), QuarkSpec("fp4", "per_group", true)),
      std::move(by_layer), std::move(exclude));
}

Json QuarkFp8(const ModelConfig& config, const char* scheme) {
  Json exclude = {"lm_head", "*.indexer.weights_proj", "*.mlp.gate"};
  if (config.num_mtp_layers > 0) exclude.push_back(MtpPrefix(config));
  return Quark(
      QuarkModule(QuarkSpec("fp8_e4m3", scheme, false), QuarkSpec("fp8_e4m3", "per_channel", true)),
      Json::object(), std::move(exclude));
}

Json CompressedTensors(const ModelConfig& config, const char* format, Json weights, Json ignore) {
  if (config.num_mtp_layers > 0) {
    ignore.push_back(fmt::format("re:.*layers\\.{}\\..*", config.num_layers));
  }
  return {{"quant_method", "compressed-tensors"},
          {"version", "0.12.2"},
          {"format", format},
          {"quantization_status", "compressed"},
          {"global_compression_ratio", nullptr},
          {"kv_cache_scheme", nullptr},
          {"config_groups",
           {{"group_0",
             {{"targets", {"Linear"}},
              {"weights", std::move(weights)},
              {"input_activations", nullptr},
              {"output_activations", nullptr},
              {"format", format}}}}},
          {"ignore", std::move(ignore)}};
}

Json CtWeights(int bits, const char* strategy, Json group_size) {
  return {{"num_bits", bits},         {"type", "float"},           {"strategy", strategy},
          {"group_size", group_size}, {"symmetric", true},         {"dynamic", false},
          {"actorder", nullptr},      {"block_structure", nullptr}};
}

// All but the experts of the trunk; `with_shared`: and the shared experts too.
Json CtIgnore(bool ignore_shared) {
  Json ignore = {"lm_head", "re:.*self_attn.*", "re:.*mlp\\.(gate|up|down)_proj$",
                 "re:.*mlp\\.gate$"};
  if (ignore_shared) ignore.push_back("re:.*shared_experts.*");
  return ignore;
}

Json CtFp8(const ModelConfig& config, bool block) {
  Json weights = CtWeights(8, block ? "block" : "channel", nullptr);
  if (block) weights["block_structure"] = {kFp8BlockSize, kFp8BlockSize};
  return CompressedTensors(config, "float-quantized", std::move(weights),
                           {"lm_head", "re:.*weights_proj$", "re:.*mlp\\.gate$"});
}

Json Modelopt(const ModelConfig& config) {
  Json ignore = {"lm_head", "model.embed_tokens", "*self_attn*", "*shared_experts*", "*mlp.gate"};
  for (int64_t i = 0; i < config.num_layers; ++i) {
    if (!config.is_moe[i]) ignore.push_back(fmt::format("model.layers.{}.mlp*", i));
  }
  if (config.num_mtp_layers > 0) ignore.push_back(MtpPrefix(config) + "*");
  const Json spec = {{"dynamic", false}, {"num_bits", 4}, {"type", "float"}, {"group_size", 16}};
  return {
      {"quant_method", "modelopt"},
      {"quant_algo", "NVFP4"},
      {"config_groups",
       {{"group_0", {{"input_activations", spec}, {"weights", spec}, {"targets", {"Linear"}}}}}},
      {"kv_cache_scheme", {{"dynamic", false}, {"num_bits", 8}, {"type", "float"}}},
      {"ignore", std::move(ignore)},
      {"producer", {{"name", "modelopt"}, {"version", "0.40.0"}}}};
}

Json GptOss(const ModelConfig& config) {
  Json skip = {"model.layers.*.self_attn", "model.layers.*.mlp.gate",
               "model.layers.*.mlp.shared_experts", "model.embed_tokens", "lm_head"};
  for (int64_t i = 0; i < config.num_layers; ++i) {
    if (config.is_moe[i]) continue;
    for (const char* leaf : {"gate_proj", "up_proj", "down_proj"}) {
      skip.push_back(fmt::format("model.layers.{}.mlp.{}", i, leaf));
    }
  }
  if (config.num_mtp_layers > 0) skip.push_back(MtpPrefix(config) + ".eh_proj");
  return {{"quant_method", "mxfp4"}, {"modules_to_not_convert", std::move(skip)}};
}

}  // namespace

Json QuantizationConfig(const ModelConfig& config, Layout layout) {
  switch (layout) {
    case Layout::kF32:
    case Layout::kBf16:
    case Layout::kF16:
    case Layout::kFusedBf16:
      return nullptr;
    case Layout::kFp8Block:
      return OfficialFp8(config);
    case Layout::kQuarkMxfp4:
      return QuarkMxfp4(config, false);
    case Layout::kQuarkMxfp4Fp8:
      return QuarkMxfp4(config, true);
    case Layout::kQuarkFp8Block:
      return QuarkFp8(config, "per_block");
    case Layout::kQuarkFp8Channel:
      return QuarkFp8(config, "per_channel");
    case Layout::kQuarkFp8Tensor:
      return QuarkFp8(config, "per_tensor");
    case Layout::kCtMxfp4:
      return CompressedTensors(config, "mxfp4-pack-quantized", CtWeights(4, "group", 32),
                               CtIgnore(false));
    case Layout::kCtFp8Channel:
      return CtFp8(config, false);
    case Layout::kCtFp8Block:
      return CtFp8(config, true);
    case Layout::kCtNvfp4:
      return CompressedTensors(config, "nvfp4-pack-quantized", CtWeights(4, "tensor_group", 16),
                               CtIgnore(true));
    case Layout::kModeloptNvfp4:
      return Modelopt(config);
    case Layout::kGptOss:
      return GptOss(config);
  }
  return nullptr;
}

}  // namespace quern::testing
