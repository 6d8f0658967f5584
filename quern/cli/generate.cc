#include "quern/cli/generate.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>

#include "quern/base/json.h"
#include "quern/cli/answer_printer.h"
#include "quern/cli/completion.h"
#include "quern/cli/conversation.h"
#include "quern/cli/interrupt.h"
#include "quern/cli/session.h"
#include "quern/cli/terminal.h"

namespace quern::cli {
namespace {

constexpr int32_t kDefaultMaxTokens = 256;

struct GenerateOptions {
  SessionOptions session;
  ChatFlags chat;
  SamplingFlags sampling;
  std::string prompt;
  bool as_chat = false;
  bool json = false;
};

void Print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

Json ToJson(const Session& session, const std::string& prompt, const SamplingFlags& sampling,
            const Completion& completion) {
  return {{"model", session.name()},
          {"prompt", prompt},
          {"text", completion.text},
          {"tokens", completion.tokens},
          {"finish_reason", FinishReasonName(completion.finish)},
          {"stop_string",
           completion.stop_string.empty() ? Json(nullptr) : Json(completion.stop_string)},
          {"seed", *sampling.seed},
          {"usage",
           {{"prompt_tokens", completion.num_prompt_tokens},
            {"cached_tokens", completion.num_cached_tokens},
            {"completion_tokens", completion.num_completion_tokens},
            {"total_tokens", completion.num_prompt_tokens + completion.num_completion_tokens}}},
          {"timings",
           {{"load_ms", session.load_ms()},
            {"first_token_ms", completion.first_token_ms},
            {"total_ms", completion.total_ms},
            {"tokens_per_second", completion.tokens_per_second()}}}};
}

Status AfterCompletion(const Completion& completion) {
  if (completion.finish != engine::FinishReason::kCancelled) return OkStatus();
  return Status(StatusCode::kCancelled,
                fmt::format("stopped by ctrl-C after {} tokens", completion.tokens.size()));
}

Status GenerateRaw(const GenerateOptions& options, const std::string& prompt, Session& session) {
  QUERN_ASSIGN(std::vector<int32_t> tokens, session.tokenizer().Encode(prompt));
  engine::Request request =
      MakeRequest(std::move(tokens), options.sampling, session.generation(),
                  session.eos_token_ids(), kDefaultMaxTokens, session.engine().max_model_len());
  QUERN_ASSIGN(const Completion completion,
               Complete(session.engine(), std::move(request), [&](std::string_view text) {
                 if (!options.json) Print(text);
               }));
  Print(options.json ? DumpJson(ToJson(session, prompt, options.sampling, completion), 2) + "\n"
                     : "\n");
  return AfterCompletion(completion);
}

Status GenerateChat(const GenerateOptions& options, const std::string& prompt, Session& session) {
  if (session.chat_template() == nullptr) {
    return FailedPrecondition(
        "{}: has no chat template; leave --chat out to complete the text as it is",
        session.directory());
  }
  Conversation conversation({session.engine(), session.tokenizer(), *session.chat_template(),
                             session.generation(), session.eos_token_ids()},
                            options.chat, options.sampling);
  AnswerPrinter printer(UseColor(STDOUT_FILENO)     ? ReasoningStyle::kDim
                        : IsTerminal(STDOUT_FILENO) ? ReasoningStyle::kMarked
                                                    : ReasoningStyle::kHidden);
  QUERN_ASSIGN(const Answer answer, conversation.Ask(prompt, [&](const text::OutputDelta& delta) {
    if (!options.json) Print(printer.Push(delta));
  }));
  if (options.json) {
    Json json = ToJson(session, prompt, options.sampling, answer.completion);
    json["reasoning"] = answer.reasoning;
    json["content"] = answer.content;
    Print(DumpJson(json, 2) + "\n");
  } else {
    Print(printer.Finish());
    if (answer.content.empty() && answer.completion.finish == engine::FinishReason::kLength) {
      std::fprintf(stderr,
                   "after %zu tokens the answer was still in its reasoning; raise --max-tokens or "
                   "use --no-think\n",
                   answer.completion.tokens.size());
    }
  }
  return AfterCompletion(answer.completion);
}

Status RunGenerate(GenerateOptions options) {
  std::string prompt = options.prompt;
  if (prompt == "-") {
    prompt.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  }
  if (prompt.empty())
    return InvalidArgument("the prompt is empty; want some text in -p TEXT, or on stdin with -p -");
  // Drawn here, so that --json can print the seed that repeats this run.
  if (!options.sampling.seed.has_value())
    options.sampling.seed = MakeSampling(options.sampling, {}).seed;
  QUERN_ASSIGN(const std::unique_ptr<Session> session, Session::Open(options.session));
  InterruptFlag interrupt;
  return options.as_chat ? GenerateChat(options, prompt, *session)
                         : GenerateRaw(options, prompt, *session);
}

}  // namespace

void AddGenerateCommand(CLI::App& app, CommandResult& result) {
  auto options = std::make_shared<GenerateOptions>();
  CLI::App* command = app.add_subcommand("generate", "Complete one text");
  command->footer(
      "Examples:\n"
      "  quern generate MODEL -p 'The capital of France is' --temperature 0 --max-tokens 16\n"
      "  quern generate MODEL --chat -p 'Name three rivers' --seed 7 --json\n"
      "  cat essay.txt | quern generate MODEL -p - --max-tokens 200");
  AddSessionOptions(*command, options->session);
  command->add_option("-p,--prompt", options->prompt, "The text to complete; - reads all of stdin")
      ->required();
  command->add_flag("--chat", options->as_chat,
                    "Send the text as a user message through the chat template");
  command->add_flag("--json", options->json,
                    "Print text, tokens, finish_reason, usage, timings and seed as JSON");
  AddChatFlags(*command, options->chat);
  AddSamplingFlags(*command, options->sampling);
  command->callback([options, &result] { result.status = RunGenerate(*options); });
}

}  // namespace quern::cli
