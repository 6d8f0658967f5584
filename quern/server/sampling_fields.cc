#include "quern/server/sampling_fields.h"

#include <charconv>
#include <limits>

namespace quern::server {
namespace {

constexpr int64_t kMaxPriority = 1000;

void ReadFloat(FieldReader& reader, const char* name, double low, double high, float& out) {
  if (const auto value = reader.Number(name, low, high)) out = static_cast<float>(*value);
}

// Like ReadFloat, but `low` itself is out: (low, high].
void ReadFloatAbove(FieldReader& reader, const char* name, double low, double high,
                    const char* hint, float& out) {
  const auto value = reader.Number(name, low, high);
  if (!value) return;
  out = static_cast<float>(*value);
  // Compared as float: what rounds to `low` would divide by it later.
  if (!(out > static_cast<float>(low))) {
    reader.Fail(name,
                fmt::format("{}: got {}, want a number in ({}, {}]{}", reader.PathOf(name), *value,
                            low, high, hint),
                "out_of_range");
  }
}

// A seed of any sign: clients send what their language's integers hold.
void ReadSeed(FieldReader& reader, SamplingFields& fields) {
  const Json* value = reader.Find("seed");
  if (value == nullptr) return;
  if (!value->is_number_integer()) {
    reader.Fail("seed", "seed: got " + DescribeJson(*value) + ", want a 64-bit integer",
                "invalid_type");
    return;
  }
  fields.sampling.seed = value->is_number_unsigned() ? value->get<uint64_t>()
                                                     : static_cast<uint64_t>(value->get<int64_t>());
  fields.has_seed = true;
}

void ReadMaxTokens(FieldReader& reader, SamplingFields& fields) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const auto old_name = reader.Integer("max_tokens", 1, kMost);
  const auto new_name = reader.Integer("max_completion_tokens", 1, kMost);
  if (old_name && new_name && *old_name != *new_name) {
    reader.Fail("max_completion_tokens",
                fmt::format("max_tokens {} and max_completion_tokens {} disagree; send one",
                            *old_name, *new_name));
  }
  if (new_name) fields.max_tokens_name = "max_completion_tokens";
  fields.max_tokens = new_name ? new_name : old_name;
}

void AddStop(FieldReader& reader, const Json& value, const std::string& name,
             std::vector<std::string>& stop) {
  if (!value.is_string()) {
    reader.Fail(name, fmt::format("{}: got {}, want a string", name, DescribeJson(value)),
                "invalid_type");
    return;
  }
  std::string text = value.get<std::string>();
  if (text.empty() || text.size() > kMaxStopBytes) {
    reader.Fail(name,
                fmt::format("{}: has {} bytes, want 1 to {}", name, text.size(), kMaxStopBytes),
                "out_of_range");
    return;
  }
  stop.push_back(std::move(text));
}

void ReadStop(FieldReader& reader, std::vector<std::string>& stop) {
  const Json* value = reader.Find("stop");
  if (value == nullptr) return;
  if (value->is_string()) {
    AddStop(reader, *value, "stop", stop);
    return;
  }
  if (!value->is_array()) {
    reader.Fail("stop",
                "stop: got " + DescribeJson(*value) + ", want a string or a list of strings",
                "invalid_type");
    return;
  }
  if (value->size() > kMaxStopStrings) {
    reader.Fail(
        "stop",
        fmt::format("stop: got {} strings, want at most {}", value->size(), kMaxStopStrings),
        "out_of_range");
    return;
  }
  for (size_t i = 0; i < value->size(); ++i)
    AddStop(reader, (*value)[i], fmt::format("stop[{}]", i), stop);
}

// {"50256": -100}: token ids as strings, since JSON has no other keys.
void ReadLogitBias(FieldReader& reader, std::map<int32_t, float>& out) {
  const Json* object = reader.Object("logit_bias");
  if (object == nullptr) return;
  for (const auto& [key, value] : object->items()) {
    int32_t token = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc() || end != key.data() + key.size() || token < 0) {
      reader.Fail("logit_bias",
                  "logit_bias: the key " + DescribeJson(Json(key)) + " is not a token id",
                  "invalid_type");
      return;
    }
    if (!value.is_number() || !(value.get<double>() >= -100) || !(value.get<double>() <= 100)) {
      reader.Fail("logit_bias",
                  fmt::format("logit_bias[{}]: got {}, want a number in [-100, 100]", token,
                              DescribeJson(value)),
                  "out_of_range");
      return;
    }
    out[token] = value.get<float>();
  }
}

void ReadStream(FieldReader& reader, SamplingFields& fields) {
  fields.stream = reader.Bool("stream").value_or(false);
  const Json* options = reader.Object("stream_options");
  if (options == nullptr) return;
  if (!fields.stream) {
    reader.Fail("stream_options", "stream_options is only for \"stream\": true");
    return;
  }
  FieldReader inner(*options, "stream_options");
  fields.include_usage = inner.Bool("include_usage").value_or(false);
  inner.RefuseUnless("include_obfuscation", false);
  inner.RefuseUnknown();
  if (!inner.ok()) reader.Fail(inner.error());
}

}  // namespace

SamplingFields ReadSamplingFields(FieldReader& reader, const engine::SamplingParams& defaults) {
  SamplingFields fields;
  fields.sampling = defaults;
  engine::SamplingParams& s = fields.sampling;
  ReadFloat(reader, "temperature", 0, 2, s.temperature);
  ReadFloatAbove(reader, "top_p", 0, 1, "; for the likeliest token use temperature 0", s.top_p);
  ReadFloat(reader, "min_p", 0, 1, s.min_p);
  ReadFloat(reader, "presence_penalty", -2, 2, s.presence_penalty);
  ReadFloat(reader, "frequency_penalty", -2, 2, s.frequency_penalty);
  ReadFloatAbove(reader, "repetition_penalty", 0, 100, "; 1 is off", s.repetition_penalty);
  if (const auto top_k = reader.Integer("top_k", -1, std::numeric_limits<int32_t>::max())) {
    s.top_k = *top_k < 0 ? 0 : static_cast<int32_t>(*top_k);  // -1 and 0 both say: all tokens
  }
  ReadSeed(reader, fields);
  ReadMaxTokens(reader, fields);
  ReadStop(reader, fields.stop);
  ReadLogitBias(reader, s.logit_bias);
  fields.ignore_eos = reader.Bool("ignore_eos").value_or(false);
  fields.skip_special_tokens = reader.Bool("skip_special_tokens").value_or(true);
  fields.priority =
      static_cast<int32_t>(reader.Integer("priority", -kMaxPriority, kMaxPriority).value_or(0));
  fields.num_choices = static_cast<int32_t>(reader.Integer("n", 1, kMaxChoices).value_or(1));
  ReadStream(reader, fields);
  return fields;
}

engine::Request MakeEngineRequest(const SamplingFields& fields, std::vector<int32_t> prompt,
                                  int32_t max_tokens, const std::vector<int32_t>& eos_token_ids,
                                  int index) {
  engine::Request request;
  request.prompt = std::move(prompt);
  request.sampling = fields.sampling;
  request.sampling.seed += static_cast<uint64_t>(index);
  request.max_tokens = max_tokens;
  request.stop_token_ids = eos_token_ids;
  request.ignore_eos = fields.ignore_eos;
  request.stop_strings = fields.stop;
  request.skip_special_tokens = fields.skip_special_tokens;
  request.priority = fields.priority;
  return request;
}

}  // namespace quern::server
