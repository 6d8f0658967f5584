#include "quern/server/openai/chat_completions.h"

#include "quern/server/openai/chat_answer.h"
#include "quern/server/openai/chat_request.h"
#include "quern/server/render.h"

namespace quern::server {
namespace {

ChatAnswerOptions AnswerOptions(const Services& services, const ChatRequest& request,
                                RenderedPrompt& rendered) {
  ChatAnswerOptions options;
  options.head = MakeAnswerHead(services, "chatcmpl-");
  options.num_choices = request.fields.num_choices;
  options.stream = request.fields.stream;
  options.include_usage = request.fields.include_usage;
  options.logprobs = request.logprobs;
  options.parser.starts_in_reasoning = rendered.starts_in_reasoning;
  options.parser.parse_tool_calls = !request.prompt.tools.empty() && request.prompt.tools_in_prompt;
  options.parser.tools = request.prompt.tools;
  if (options.parser.parse_tool_calls) options.open_tool_call = std::move(rendered.open_tool_call);
  if (!request.fields.ignore_eos) options.stop_token_ids = services.model.eos_token_ids;
  return options;
}

}  // namespace

ApiResult<PreparedAnswer> PrepareChatCompletion(Services& services, std::string_view body) {
  ApiResult<ChatRequest> request = ParseChatRequest(body, services.model.sampling_defaults);
  if (!request.ok()) return request.error();
  if (auto error = services.CheckModel(request->model)) return *error;
  if (auto error = CheckLogitBias(services, request->fields.sampling)) return *error;

  ApiResult<RenderedPrompt> rendered = RenderChat(services.chat_template, request->prompt);
  if (!rendered.ok()) return rendered.error();
  ApiResult<std::vector<int32_t>> prompt =
      EncodePrompt(services.tokenizer, rendered->text, /*add_special_tokens=*/false, "messages");
  if (!prompt.ok()) return prompt.error();
  const int64_t prompt_len = static_cast<int64_t>(prompt->size());
  ApiResult<int32_t> max_tokens =
      ChooseMaxTokens(services, request->fields, prompt_len, /*fallback=*/std::nullopt, "messages");
  if (!max_tokens.ok()) return max_tokens.error();
  if (!request->fields.has_seed) request->fields.sampling.seed = RandomSeed();

  PreparedAnswer answer;
  answer.stream = request->fields.stream;
  for (int i = 0; i < request->fields.num_choices; ++i) {
    answer.requests.push_back(
        MakeEngineRequest(request->fields, *prompt, *max_tokens, services.model.eos_token_ids, i));
    answer.requests.back().num_top_logprobs = request->logprobs ? request->top_logprobs : -1;
  }
  ChatAnswerOptions options = AnswerOptions(services, *request, *rendered);
  answer.id = options.head.id;
  answer.writer = MakeChatAnswer(std::move(options), services.tokenizer);
  return answer;
}

}  // namespace quern::server
