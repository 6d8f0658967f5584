// `quant_method: fp8`, as the GLM and DeepSeek makers publish: E4M3 weights with one f32 scale per
// block of `weight_block_size` (`weight_scale_inv`, which multiplies in spite of its name), or per
// tensor when that is null. All Linear modules but those in `modules_to_not_convert` (older:
// `ignored_layers`).
#include <utility>

#include "quern/checkpoint/config_fields.h"
#include "quern/checkpoint/dialects/dialects.h"
#include "quern/checkpoint/dialects/name_rules.h"

namespace quern::checkpoint {
namespace {

class Fp8 : public Dialect {
 public:
  Fp8(Wanted wanted, std::string rule, NameRules skip, std::string activations)
      : wanted_(wanted),
        rule_(std::move(rule)),
        skip_(std::move(skip)),
        activations_(std::move(activations)) {}

  std::string name() const override {
    return wanted_.format == WeightFormat::kFp8Block
               ? fmt::format("fp8 (block {}x{})", wanted_.block_rows, wanted_.block_cols)
               : "fp8 (per tensor)";
  }
  Rule Decide(std::string_view module) override {
    const int index = skip_.Find(module);
    if (index >= 0) return {.wanted = {}, .text = skip_.Label(index)};
    // Without a list the tools leave the output head alone.
    if (skip_.size() == 0 && module == "lm_head") {
      return {.wanted = {}, .text = "no modules_to_not_convert: lm_head is not converted"};
    }
    return {.wanted = wanted_, .text = rule_, .fallback = true};
  }
  std::string skip_field() const override { return skip_.field(); }
  std::string activations() const override { return activations_; }
  void Report(Problems& problems) const override { skip_.Report(problems); }

 private:
  Wanted wanted_;
  std::string rule_;
  NameRules skip_;
  std::string activations_;
};

}  // namespace

std::unique_ptr<Dialect> ParseFp8(const Json& json, const std::string& file, Problems& problems) {
  const ConfigFields fields(json, file, problems);
  const std::string fmt_name = fields.OptionalString("fmt").value_or("e4m3");
  if (fmt_name != "e4m3" && fmt_name != "float8_e4m3fn") {
    fields.Error("fmt is {}, want \"e4m3\": no other FP8 encoding is supported",
                 ShowJson(Json(fmt_name)));
    return nullptr;
  }
  Wanted wanted{.quantized = true, .format = WeightFormat::kFp8Tensor};
  std::string rule = "quant_method fp8, no weight_block_size";
  if (const Json* block = fields.Find("weight_block_size")) {
    const auto side = [&](size_t i) {
      const Json& value = (*block)[i];
      return value.is_number_integer() && value.get<int64_t>() >= 1 && value.get<int64_t>() <= 65536
                 ? value.get<int64_t>()
                 : 0;
    };
    if (!block->is_array() || block->size() != 2 || side(0) == 0 || side(1) == 0) {
      fields.Error("weight_block_size is {}, want two integers [rows, columns] from 1 to 65536",
                   block->is_array() && block->size() < 5 ? DumpJson(*block) : ShowJson(*block));
      return nullptr;
    }
    wanted = {.quantized = true,
              .format = WeightFormat::kFp8Block,
              .block_rows = side(0),
              .block_cols = side(1)};
    rule = fmt::format("weight_block_size [{}, {}]", side(0), side(1));
  }
  const char* list = fields.Has("ignored_layers") && !fields.Has("modules_to_not_convert")
                         ? "ignored_layers"
                         : "modules_to_not_convert";
  NameRules skip(list, match::kExact | match::kPrefix | match::kSuffix | match::kGlob |
                           match::kGlobTree | match::kRegex | match::kBareRegex);
  for (std::string& entry : fields.OptionalStrings(list).value_or(std::vector<std::string>{})) {
    skip.Add(std::move(entry), problems);
  }
  const std::string scheme = fields.OptionalString("activation_scheme").value_or("dynamic");
  return std::make_unique<Fp8>(wanted, rule, std::move(skip), "fp8 e4m3, " + scheme);
}

}  // namespace quern::checkpoint
