// `quant_method: mxfp4`, as gpt-oss files are written: expert matrices as MXFP4 (`*_blocks` and
// `*_scales`, all experts in one tensor), everything else as it was. `modules_to_not_convert` takes
// more modules out.
#include <utility>

#include "quern/checkpoint/config_fields.h"
#include "quern/checkpoint/dialects/dialects.h"
#include "quern/checkpoint/dialects/name_rules.h"

namespace quern::checkpoint {
namespace {

// True when `module` is or lies in a module called "experts".
bool IsExpert(std::string_view module) {
  constexpr std::string_view kExperts = ".experts";
  const size_t at = module.find(kExperts);
  if (at == std::string_view::npos) return false;
  const size_t end = at + kExperts.size();
  return end == module.size() || module[end] == '.';
}

class GptOssMxfp4 : public Dialect {
 public:
  explicit GptOssMxfp4(NameRules skip) : skip_(std::move(skip)) {}

  std::string name() const override { return "mxfp4 (gpt-oss)"; }
  Rule Decide(std::string_view module) override {
    const int index = skip_.Find(module);
    if (index >= 0) return {.wanted = {}, .text = skip_.Label(index)};
    if (IsExpert(module)) {
      return {.wanted = {.quantized = true, .format = WeightFormat::kMxfp4},
              .text = "quant_method mxfp4: experts",
              .fallback = true};
    }
    return {.wanted = {}, .text = "quant_method mxfp4: experts only", .fallback = true};
  }
  std::string skip_field() const override { return skip_.field(); }
  void Report(Problems& problems) const override { skip_.Report(problems); }

 private:
  NameRules skip_;
};

}  // namespace

std::unique_ptr<Dialect> ParseGptOssMxfp4(const Json& json, const std::string& file,
                                          Problems& problems) {
  const ConfigFields fields(json, file, problems);
  const char* list = "modules_to_not_convert";
  NameRules skip(list, match::kExact | match::kPrefix | match::kSuffix | match::kGlob |
                           match::kGlobTree | match::kRegex | match::kBareRegex);
  for (std::string& entry : fields.OptionalStrings(list).value_or(std::vector<std::string>{})) {
    skip.Add(std::move(entry), problems);
  }
  return std::make_unique<GptOssMxfp4>(std::move(skip));
}

}  // namespace quern::checkpoint
