#include "quern/server/openai/chat_request.h"

namespace quern::server {
namespace {

// Named so that the refusal can say "not implemented" instead of "unknown".
constexpr const char* kNotImplemented[] = {"functions",
                                           "function_call",
                                           "audio",
                                           "web_search_options",
                                           "prediction",
                                           "verbosity",
                                           "min_tokens",
                                           "stop_token_ids",
                                           "guided_json",
                                           "guided_regex",
                                           "guided_choice",
                                           "guided_grammar",
                                           "structured_outputs",
                                           "logits_processors",
                                           "allowed_token_ids",
                                           "bad_words",
                                           "prompt_logprobs",
                                           "use_beam_search",
                                           "length_penalty",
                                           "include_stop_str_in_output",
                                           "chat_template",
                                           "documents",
                                           "mm_processor_kwargs",
                                           "priority",
                                           "best_of",
                                           "suffix",
                                           "typical_p",
                                           "dry_multiplier"};

void ReadLogprobs(FieldReader& reader, ChatRequest& request) {
  request.logprobs = reader.Bool("logprobs").value_or(false);
  if (const auto top = reader.Integer("top_logprobs", 0, kMaxTopLogprobs)) {
    request.top_logprobs = static_cast<int32_t>(*top);
    if (*top > 0 && !request.logprobs) {
      reader.Fail("top_logprobs", "top_logprobs needs \"logprobs\": true");
    }
  }
}

// Fields other servers implement. What asks for nothing is let through, so that clients may send
// their defaults.
void RefuseTheRest(FieldReader& reader) {
  if (const Json* format = reader.Object("response_format")) {
    if (format->value("type", Json()) != "text") {
      reader.Fail("response_format",
                  "response_format: got type " + DescribeJson(format->value("type", Json())) +
                      "; quern implements only {\"type\": \"text\"} so far",
                  "unsupported_value");
    }
  }
  reader.RefuseUnless("modalities", Json::array({"text"}));
  reader.RefuseUnless("store", false);
  reader.RefuseUnless("echo", false);
  for (const char* name : kNotImplemented) reader.Refuse(name);
  reader.String("user");
  reader.Object("metadata");
  reader.Accept(
      {"service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"});
  reader.RefuseUnknown();
}

}  // namespace

ApiResult<ChatRequest> ParseChatRequest(std::string_view body,
                                        const engine::SamplingParams& defaults) {
  ApiResult<Json> json = ParseBody(body);
  if (!json.ok()) return json.error();
  FieldReader reader(*json);
  ChatRequest request;
  request.model = reader.String("model");
  request.prompt = ReadChatPrompt(reader);
  request.fields = ReadSamplingFields(reader, defaults);
  ReadLogprobs(reader, request);
  RefuseTheRest(reader);
  if (!reader.ok()) return reader.error();
  return request;
}

}  // namespace quern::server
