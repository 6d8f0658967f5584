#include "quern/server/openai/completions.h"

#include <algorithm>

#include "quern/server/openai/completion_answer.h"
#include "quern/server/openai/completion_request.h"
#include "quern/server/render.h"

namespace quern::server {
namespace {

ApiResult<std::vector<int32_t>> PromptIds(const Services& services, PromptInput& input,
                                          bool add_special_tokens) {
  if (const auto* text = std::get_if<std::string>(&input)) {
    return EncodePrompt(services.tokenizer, *text, add_special_tokens, "prompt");
  }
  std::vector<int32_t>& ids = std::get<std::vector<int32_t>>(input);
  const auto highest = std::max_element(ids.begin(), ids.end());
  if (highest != ids.end() && *highest >= services.engine.vocab_size()) {
    return BadField("prompt",
                    fmt::format("prompt: token {} does not exist; ids are below {}", *highest,
                                services.engine.vocab_size()),
                    "out_of_range");
  }
  return std::move(ids);
}

}  // namespace

ApiResult<PreparedAnswer> PrepareCompletion(Services& services, std::string_view body) {
  ApiResult<CompletionRequest> request =
      ParseCompletionRequest(body, services.model.sampling_defaults);
  if (!request.ok()) return request.error();
  if (auto error = services.CheckModel(request->model)) return *error;
  if (auto error = CheckLogitBias(services, request->fields.sampling)) return *error;
  SamplingFields& fields = request->fields;
  if (!fields.has_seed) fields.sampling.seed = RandomSeed();

  PreparedAnswer answer;
  answer.stream = fields.stream;
  for (PromptInput& input : request->prompts) {
    ApiResult<std::vector<int32_t>> prompt =
        PromptIds(services, input, request->add_special_tokens);
    if (!prompt.ok()) return prompt.error();
    ApiResult<int32_t> max_tokens = ChooseMaxTokens(
        services, fields, static_cast<int64_t>(prompt->size()), kDefaultCompletionTokens, "prompt");
    if (!max_tokens.ok()) return max_tokens.error();
    for (int i = 0; i < fields.num_choices; ++i) {
      answer.requests.push_back(
          MakeEngineRequest(fields, *prompt, *max_tokens, services.model.eos_token_ids, i));
      answer.requests.back().num_top_logprobs = request->num_top_logprobs;
    }
  }

  CompletionAnswerOptions options;
  options.head = MakeAnswerHead(services, "cmpl-");
  options.num_choices = static_cast<int>(answer.requests.size());
  options.choices_per_prompt = fields.num_choices;
  options.stream = fields.stream;
  options.include_usage = fields.include_usage;
  options.num_top_logprobs = request->num_top_logprobs;
  if (!fields.ignore_eos) options.stop_token_ids = services.model.eos_token_ids;
  answer.id = options.head.id;
  answer.writer = MakeCompletionAnswer(std::move(options), services.tokenizer);
  return answer;
}

}  // namespace quern::server
