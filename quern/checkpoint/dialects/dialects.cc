#include "quern/checkpoint/dialects/dialects.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "quern/checkpoint/config_fields.h"

namespace quern::checkpoint {
namespace {

using Parse = std::unique_ptr<Dialect> (*)(const Json&, const std::string&, Problems&);

struct Row {
  std::string_view quant_method;
  Parse parse;
};

constexpr Row kDialects[] = {
    {"fp8", ParseFp8},
    {"quark", ParseQuark},
    {"compressed-tensors", ParseCompressedTensors},
    {"modelopt", ParseModelopt},
    {"modelopt_fp4", ParseModelopt},
    {"mxfp4", ParseGptOssMxfp4},
};

// The method of files that do not say it in so many words, empty when nothing fits.
std::string GuessMethod(const Json& json) {
  if (json.contains("config_groups") && json.contains("format")) return "compressed-tensors";
  const auto quantization = json.find("quantization");  // hf_quant_config.json
  if (quantization != json.end() && quantization->is_object() &&
      quantization->contains("quant_algo")) {
    return "modelopt";
  }
  return {};
}

}  // namespace

std::string WantedName(const Wanted& wanted) {
  if (!wanted.quantized) return "unquantized";
  const std::string_view name = WeightFormatName(wanted.format);
  if (wanted.format != WeightFormat::kFp8Block) return std::string(name);
  return fmt::format("{} {}x{}", name, wanted.block_rows, wanted.block_cols);
}

std::string SupportedQuantizations() {
  return "unquantized bf16, f16 and f32; quant_method fp8 (E4M3 in blocks or per tensor), quark "
         "(mxfp4, nvfp4, fp8), "
         "compressed-tensors (mxfp4-pack-quantized, nvfp4-pack-quantized, float-quantized), "
         "modelopt (NVFP4, FP8) and "
         "mxfp4 (gpt-oss experts)";
}

std::unique_ptr<Dialect> ParseQuantization(const Json& json, const std::string& file,
                                           Problems& problems) {
  if (json.is_null()) return MakeUnquantized();
  if (!json.is_object()) {
    problems.Error("{} is {}, want an object with quant_method", file, ShowJson(json));
    return nullptr;
  }
  const ConfigFields fields(json, file, problems);
  if (fields.Has("quant_method") && !json["quant_method"].is_string()) {
    (void)fields.OptionalString("quant_method");
    return nullptr;
  }
  std::string method = fields.OptionalString("quant_method").value_or(GuessMethod(json));
  std::transform(method.begin(), method.end(), method.begin(),
                 [](unsigned char c) { return c == '_' ? '-' : std::tolower(c); });
  if (method.empty()) {
    fields.Error("quant_method is missing; quern reads {}", SupportedQuantizations());
    return nullptr;
  }
  for (const Row& row : kDialects) {
    std::string known(row.quant_method);
    std::replace(known.begin(), known.end(), '_', '-');
    if (known == method) return row.parse(json, file, problems);
  }
  fields.Error("quant_method {} is not supported; quern reads {}", ShowJson(Json(method)),
               SupportedQuantizations());
  return nullptr;
}

}  // namespace quern::checkpoint
