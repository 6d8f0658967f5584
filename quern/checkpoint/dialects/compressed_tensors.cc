// compressed-tensors (llm-compressor): `config_groups` say what to do with their `targets` (module
// names, `re:` patterns, or the class "Linear" for all), `ignore` lists modules to leave alone.
#include <algorithm>
#include <optional>
#include <utility>

#include "quern/checkpoint/config_fields.h"
#include "quern/checkpoint/dialects/dialects.h"
#include "quern/checkpoint/dialects/name_rules.h"

namespace quern::checkpoint {
namespace {

constexpr const char* kFormats[] = {"mxfp4-pack-quantized", "nvfp4-pack-quantized",
                                    "float-quantized", "naive-quantized", "dense"};
constexpr const char* kWanted =
    "mxfp4-pack-quantized, nvfp4-pack-quantized or float-quantized (FP8 E4M3 per tensor, channel "
    "or block)";

struct Group {
  std::string label;  // "config_groups.group_0"
  std::string text;   // "float 8 channel"
  Wanted wanted;
  NameRules targets;
  bool linear = false;  // targets has the class "Linear"
};

// One group's "weights" object. `format` is the group's or the file's.
std::optional<Wanted> ParseWeights(const Json& json, const std::string& file,
                                   const std::string& format, std::string& text,
                                   Problems& problems) {
  const ConfigFields fields(json, file, problems);
  const std::string type = fields.OptionalString("type").value_or("int");
  const int64_t bits = fields.IntOr("num_bits", 1, 64, 8);
  const std::string strategy = fields.OptionalString("strategy").value_or("tensor");
  const int64_t group = fields.Has("group_size") ? fields.IntOr("group_size", -1, 1 << 20, 0) : 0;
  text =
      fmt::format("{} {} {}{}", type, bits, strategy, group > 0 ? fmt::format(" {}", group) : "");
  Wanted wanted{.quantized = true};
  if (!fields.BoolOr("symmetric", true)) {
    fields.Error("symmetric is false: weights with zero points are not supported");
    return std::nullopt;
  }
  if (type == "float" && bits == 4 && format.rfind("mxfp4", 0) == 0 &&
      (group == 32 || group == 0)) {
    wanted.format = WeightFormat::kMxfp4;
    return wanted;
  }
  if (type == "float" && bits == 4 && format.rfind("nvfp4", 0) == 0 &&
      (group == 16 || group == 0)) {
    wanted.format = WeightFormat::kNvfp4;
    return wanted;
  }
  if (type == "float" && bits == 8 && (strategy == "tensor" || strategy == "channel")) {
    wanted.format = strategy == "tensor" ? WeightFormat::kFp8Tensor : WeightFormat::kFp8Channel;
    return wanted;
  }
  if (type == "float" && bits == 8 && strategy == "block") {
    wanted.format = WeightFormat::kFp8Block;
    wanted.block_rows = wanted.block_cols = 128;
    if (const Json* block = fields.Find("block_structure")) {
      const bool pair = block->is_array() && block->size() == 2 &&
                        std::all_of(block->begin(), block->end(), [](const Json& side) {
                          return side.is_number_integer() && side.get<int64_t>() >= 1 &&
                                 side.get<int64_t>() <= 65536;
                        });
      if (!pair) {
        fields.Error("block_structure is {}, want two integers [rows, columns]", ShowJson(*block));
        return std::nullopt;
      }
      wanted.block_rows = (*block)[0].get<int64_t>();
      wanted.block_cols = (*block)[1].get<int64_t>();
    }
    return wanted;
  }
  fields.Error("weights of type {}, {} bits, strategy {}, in format {} are not supported; want {}",
               ShowJson(Json(type)), bits, ShowJson(Json(strategy)), ShowJson(Json(format)),
               kWanted);
  return std::nullopt;
}

class CompressedTensors : public Dialect {
 public:
  CompressedTensors() : ignore_("ignore", match::kExact | match::kRegex) {}

  bool Parse(const Json& json, const std::string& file, Problems& problems);

  std::string name() const override { return "compressed-tensors"; }
  Rule Decide(std::string_view module) override {
    const int ignored = ignore_.Find(module);
    const Group* found = nullptr;
    int target = -1;
    for (Group& group : groups_) {
      const int index = group.targets.Find(module);
      if (index < 0 || found != nullptr) continue;
      found = &group;
      target = index;
    }
    if (ignored >= 0) return {.wanted = {}, .text = ignore_.Label(ignored)};
    if (found != nullptr) {
      return {.wanted = found->wanted, .text = found->targets.Label(target) + ": " + found->text};
    }
    for (const Group& group : groups_) {
      if (!group.linear) continue;
      return {.wanted = group.wanted,
              .text = fmt::format("{}.targets \"Linear\": {}", group.label, group.text),
              .fallback = true};
    }
    return {.wanted = {}, .text = "no target of config_groups", .fallback = true};
  }
  std::string skip_field() const override { return ignore_.field(); }
  std::string activations() const override { return activations_; }
  void Report(Problems& problems) const override {
    ignore_.Report(problems);
    for (const Group& group : groups_) group.targets.Report(problems);
  }

 private:
  bool ParseGroup(const std::string& key, const Json& json, const std::string& file,
                  const std::string& file_format, Problems& problems);

  NameRules ignore_;
  std::vector<Group> groups_;
  std::string activations_;
};

bool CheckFormat(const ConfigFields& fields, const std::string& format) {
  const bool known = std::any_of(std::begin(kFormats), std::end(kFormats),
                                 [&](const char* name) { return format == name; });
  if (!known) {
    fields.Error("format {} is not supported; want {}", ShowJson(Json(format)), kWanted);
  }
  return known;
}

bool CompressedTensors::ParseGroup(const std::string& key, const Json& json,
                                   const std::string& file, const std::string& file_format,
                                   Problems& problems) {
  const std::string label = "config_groups." + ShowJson(Json(key));
  const std::string where = file + ": " + label;
  if (!json.is_object()) {
    problems.Error("{} is {}, want an object", where, ShowJson(json));
    return false;
  }
  const ConfigFields fields(json, where, problems);
  const std::string format = fields.OptionalString("format").value_or(file_format);
  Group group{
      .label = "config_groups." + key,
      .text = "not quantized",
      .wanted = {},
      .targets = NameRules("config_groups." + key + ".targets", match::kExact | match::kRegex)};
  if (const Json* weights = fields.Find("weights")) {
    if (!CheckFormat(fields, format)) return false;
    const auto wanted = ParseWeights(*weights, where + ".weights", format, group.text, problems);
    if (!wanted) return false;
    group.wanted = *wanted;
  }
  for (std::string& target :
       fields.OptionalStrings("targets").value_or(std::vector<std::string>{})) {
    if (target == "Linear") {
      group.linear = true;
    } else {
      group.targets.Add(std::move(target), problems);
    }
  }
  if (const Json* input = fields.Find("input_activations"); input && input->is_object()) {
    const ConfigFields in(*input, where + ".input_activations", problems);
    activations_ = fmt::format("{} {}", in.OptionalString("type").value_or("int"),
                               in.IntOr("num_bits", 1, 64, 8));
  }
  groups_.push_back(std::move(group));
  return true;
}

bool CompressedTensors::Parse(const Json& json, const std::string& file, Problems& problems) {
  const ConfigFields fields(json, file, problems);
  const std::string format = fields.OptionalString("format").value_or("dense");
  if (format != "mixed-precision" && !CheckFormat(fields, format)) return false;
  if (const Json* sparsity = fields.Find("sparsity_config"); sparsity && sparsity->is_object()) {
    const std::string kind = ConfigFields(*sparsity, file + ": sparsity_config", problems)
                                 .OptionalString("format")
                                 .value_or("dense");
    if (kind != "dense") {
      fields.Error("sparsity_config.format {} is not supported; want none", ShowJson(Json(kind)));
      return false;
    }
  }
  if (const Json* transform = fields.Find("transform_config");
      transform && transform->is_object()) {
    const auto groups = transform->find("config_groups");
    if (groups != transform->end() && !groups->empty()) {
      fields.Error("transform_config is not supported: rotations at run time are not implemented");
      return false;
    }
  }
  const Json* groups = fields.Find("config_groups");
  if (groups == nullptr || !groups->is_object()) {
    fields.Error("config_groups is {}, want an object of groups",
                 groups == nullptr ? "missing" : ShowJson(*groups));
    return false;
  }
  bool ok = true;
  for (const auto& [key, value] : groups->items()) {
    ok &= ParseGroup(key, value, file, format, problems);
  }
  for (std::string& entry : fields.OptionalStrings("ignore").value_or(std::vector<std::string>{})) {
    ignore_.Add(std::move(entry), problems);
  }
  return ok;
}

}  // namespace

std::unique_ptr<Dialect> ParseCompressedTensors(const Json& json, const std::string& file,
                                                Problems& problems) {
  auto dialect = std::make_unique<CompressedTensors>();
  if (!dialect->Parse(json, file, problems)) return nullptr;
  return dialect;
}

}  // namespace quern::checkpoint
