#include "quern/checkpoint/config.h"
#include "quern/checkpoint/config_fields.h"

namespace quern::checkpoint {
namespace {

std::optional<float> ToFloat(std::optional<double> value) {
  return value ? std::optional<float>(static_cast<float>(*value)) : std::nullopt;
}

}  // namespace

GenerationConfig ParseGenerationConfig(const Json& json, Problems& problems) {
  const ConfigFields fields(json, "generation_config.json", problems);
  GenerationConfig config;
  if (!json.is_object()) {
    fields.Error("holds {}, want an object", ShowJson(json));
    return config;
  }
  config.temperature = ToFloat(fields.OptionalNumber("temperature", 0, 100));
  config.top_p = ToFloat(fields.OptionalNumber("top_p", 0, 1));
  config.top_k = fields.OptionalInt("top_k", -1, int64_t{1} << 31);
  config.min_p = ToFloat(fields.OptionalNumber("min_p", 0, 1));
  config.repetition_penalty = ToFloat(fields.OptionalNumber("repetition_penalty", 0.01, 100));
  config.eos_token_ids = fields.TokenIds("eos_token_id", INT32_MAX);
  // Greedy by the file's own wish, whatever temperature stands beside it.
  if (fields.Has("do_sample") && !fields.BoolOr("do_sample", true)) config.temperature = 0.0f;
  return config;
}

}  // namespace quern::checkpoint
