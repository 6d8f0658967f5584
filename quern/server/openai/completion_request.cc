#include "quern/server/openai/completion_request.h"

#include <limits>

namespace quern::server {
namespace {

constexpr const char* kNotImplemented[] = {
    "suffix",          "min_tokens",        "stop_token_ids",        "guided_json",
    "guided_regex",    "guided_choice",     "guided_grammar",        "structured_outputs",
    "response_format", "logits_processors", "allowed_token_ids",     "bad_words",
    "prompt_logprobs", "use_beam_search",   "length_penalty",        "include_stop_str_in_output",
    "prompt_embeds",   "priority",          "truncate_prompt_tokens"};

bool IsTokenId(const Json& value) { return value.is_number_integer(); }

void AddPrompt(FieldReader& reader, const Json& value, const std::string& name,
               CompletionRequest& request) {
  if (value.is_string()) {
    std::string text = value.get<std::string>();
    if (text.empty()) {
      reader.Fail("prompt", name + " is an empty string; generation needs at least one token",
                  "invalid_value");
    }
    request.prompts.emplace_back(std::move(text));
  } else if (value.is_array() && !value.empty() && IsTokenId(value[0])) {
    request.prompts.emplace_back(ReadTokenIds(reader, value, name));
  } else {
    reader.Fail("prompt",
                fmt::format("{}: got {}, want a string or a non-empty list of token ids", name,
                            DescribeJson(value)),
                "invalid_type");
  }
}

// A string, a list of strings, a list of token ids, or a list of lists of token ids.
void ReadPrompts(FieldReader& reader, CompletionRequest& request) {
  const Json* prompt = reader.Find("prompt");
  if (!reader.ok()) return;
  if (prompt == nullptr) {
    reader.Fail("prompt", "prompt is missing, want a string, token ids, or a list of either",
                "missing_field");
    return;
  }
  const bool many = prompt->is_array() && !prompt->empty() && !IsTokenId((*prompt)[0]);
  if (!many) {
    AddPrompt(reader, *prompt, "prompt", request);
    return;
  }
  if (prompt->size() > kMaxPrompts) {
    reader.Fail("prompt",
                fmt::format("prompt: got {} prompts, want at most {}", prompt->size(), kMaxPrompts),
                "out_of_range");
    return;
  }
  for (size_t i = 0; i < prompt->size() && reader.ok(); ++i) {
    AddPrompt(reader, (*prompt)[i], fmt::format("prompt[{}]", i), request);
  }
}

}  // namespace

std::vector<int32_t> ReadTokenIds(FieldReader& reader, const Json& list, const std::string& name) {
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const Json& value = list[i];
    const bool is_id =
        value.is_number_unsigned() &&
        value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int32_t>::max());
    if (!is_id) {
      reader.Fail(name,
                  fmt::format("{}[{}]: got {}, want a token id", name, i, DescribeJson(value)),
                  "invalid_type");
      return {};
    }
    ids.push_back(static_cast<int32_t>(value.get<uint64_t>()));
  }
  return ids;
}

ApiResult<CompletionRequest> ParseCompletionRequest(std::string_view body,
                                                    const engine::SamplingParams& defaults) {
  ApiResult<Json> json = ParseBody(body);
  if (!json.ok()) return json.error();
  FieldReader reader(*json);
  CompletionRequest request;
  request.model = reader.String("model");
  ReadPrompts(reader, request);
  request.fields = ReadSamplingFields(reader, defaults);
  request.num_top_logprobs =
      static_cast<int32_t>(reader.Integer("logprobs", 0, kMaxTopLogprobs).value_or(-1));
  request.add_special_tokens = reader.Bool("add_special_tokens").value_or(true);
  const int64_t choices = static_cast<int64_t>(request.prompts.size()) * request.fields.num_choices;
  if (choices > kMaxPrompts) {
    reader.Fail(
        "n",
        fmt::format("{} prompts x n {} = {} choices, want at most {}", request.prompts.size(),
                    request.fields.num_choices, choices, kMaxPrompts),
        "out_of_range");
  }
  reader.RefuseUnless("echo", false);
  reader.RefuseUnless("store", false);
  if (const auto best_of = reader.Integer("best_of", 1, kMaxChoices); best_of && *best_of != 1) {
    reader.Fail("best_of", "best_of: quern implements only 1; use n and choose",
                "unsupported_value");
  }
  for (const char* name : kNotImplemented) reader.Refuse(name);
  reader.String("user");
  reader.Object("metadata");
  reader.Accept({"service_tier", "safety_identifier", "prompt_cache_key"});
  reader.RefuseUnknown();
  if (!reader.ok()) return reader.error();
  return request;
}

}  // namespace quern::server
