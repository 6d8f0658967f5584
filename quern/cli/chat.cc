#include "quern/cli/chat.h"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>

#include "quern/cli/answer_printer.h"
#include "quern/cli/conversation.h"
#include "quern/cli/interrupt.h"
#include "quern/cli/session.h"
#include "quern/cli/terminal.h"

namespace quern::cli {
namespace {

constexpr char kHelp[] =
    "  /reset         start anew (the system prompt stays)\n"
    "  /system TEXT   set the system prompt and start anew; without TEXT: none\n"
    "  /think on|off  let the model reason before it answers, or not\n"
    "  /help          this list\n"
    "  /quit          leave (so does ctrl-D)\n"
    "  ctrl-C stops an answer. A line that ends in \\ goes on in the next one.\n"
    "  A question that begins with / : put a space in front.\n";

struct ChatOptions {
  SessionOptions session;
  ChatFlags chat;
  SamplingFlags sampling;
  bool show_reasoning = false;
  bool hide_reasoning = false;
};

ReasoningStyle ChooseStyle(const ChatOptions& options) {
  if (options.hide_reasoning) return ReasoningStyle::kHidden;
  if (UseColor(STDOUT_FILENO)) return ReasoningStyle::kDim;
  if (options.show_reasoning || IsTerminal(STDOUT_FILENO)) return ReasoningStyle::kMarked;
  return ReasoningStyle::kHidden;
}

void Print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

// The loop over lines. Interactive when stdin is a terminal: prompts, notes, and errors that do not
// end it.
class ChatLoop {
 public:
  ChatLoop(Conversation& conversation, ReasoningStyle style)
      : conversation_(conversation),
        style_(style),
        interactive_(IsTerminal(STDIN_FILENO)),
        dim_notes_(UseColor(STDERR_FILENO)) {}

  Status Run(const std::string& model_name) {
    if (interactive_) {
      Note(fmt::format("{}: ask away. /help lists commands, ctrl-D leaves.", model_name));
    }
    LineReader reader(STDIN_FILENO);
    while (std::optional<std::string> line = NextLine(reader)) {
      const ChatLine parsed = ParseChatLine(*line);
      if (parsed.kind == ChatLine::Kind::kQuit) break;
      if (const Status status = Handle(parsed); !status.ok()) {
        if (!interactive_) return status;
        Note("error: " + status.message());
      }
    }
    return OkStatus();
  }

 private:
  // Lines for the person go to stderr: stdout holds answers only.
  void Note(const std::string& text) {
    std::fprintf(stderr, "%s%s%s\n", dim_notes_ ? "\033[2m" : "", text.c_str(),
                 dim_notes_ ? "\033[0m" : "");
  }

  // A line, continued over trailing backslashes when typed; nullopt at the end of input.
  std::optional<std::string> NextLine(LineReader& reader) {
    std::string whole;
    for (;;) {
      if (interactive_) std::fputs(whole.empty() ? "> " : "  ", stderr);
      std::string line;
      switch (reader.Read(line)) {
        case LineReader::Outcome::kEnd:
          if (interactive_) std::fputs("\n", stderr);
          if (whole.empty()) return std::nullopt;
          return whole;
        case LineReader::Outcome::kInterrupted:
          if (!InterruptFlag::Take()) continue;  // some other signal, such as a resized window
          if (!interactive_) return std::nullopt;
          std::fputs("\n", stderr);
          Note("(ctrl-D or /quit leaves)");
          whole.clear();
          continue;
        case LineReader::Outcome::kLine:
          break;
      }
      if (interactive_ && line.ends_with('\\')) {
        line.back() = '\n';
        whole += line;
        continue;
      }
      return whole + line;
    }
  }

  Status Handle(const ChatLine& line) {
    switch (line.kind) {
      case ChatLine::Kind::kEmpty:
      case ChatLine::Kind::kQuit:
        return OkStatus();
      case ChatLine::Kind::kQuestion:
        return Answer(line.text);
      case ChatLine::Kind::kHelp:
        std::fputs(kHelp, stderr);
        return OkStatus();
      case ChatLine::Kind::kReset:
        conversation_.Reset();
        Note("(a new conversation)");
        return OkStatus();
      case ChatLine::Kind::kSystem:
        conversation_.SetSystem(line.text);
        Note(line.text.empty() ? "(no system prompt; a new conversation)"
                               : "(system prompt set; a new conversation)");
        return OkStatus();
      case ChatLine::Kind::kThink:
        if (line.text != "on" && line.text != "off") {
          return InvalidArgument("/think takes on or off, not \"{}\"", line.text);
        }
        conversation_.set_thinking(line.text == "on");
        Note(fmt::format("(reasoning {})", line.text));
        return OkStatus();
      case ChatLine::Kind::kUnknown:
        return InvalidArgument(
            "{}: no such command; /help lists them (to ask it as it is, put a space in front)",
            line.text);
    }
    return OkStatus();
  }

  Status Answer(const std::string& question) {
    AnswerPrinter printer(style_);
    InterruptFlag::Take();  // a ctrl-C from before the question is not for its answer
    Result<cli::Answer> answer = conversation_.Ask(
        question, [&](const text::OutputDelta& delta) { Print(printer.Push(delta)); });
    Print(printer.Finish());
    if (!answer.ok()) return answer.status();
    const Completion& completion = answer->completion;
    if (completion.finish == engine::FinishReason::kLength && answer->content.empty()) {
      Note(
          fmt::format("(after {} tokens the answer was still in its reasoning; raise --max-tokens "
                      "or use --no-think)",
                      completion.tokens.size()));
    } else if (completion.finish == engine::FinishReason::kLength) {
      Note(fmt::format("(cut after {} tokens: --max-tokens or the context is used up)",
                       completion.tokens.size()));
    } else if (completion.finish == engine::FinishReason::kCancelled) {
      Note("(stopped)");
      if (!interactive_) return Status(StatusCode::kCancelled, "stopped by ctrl-C");
    }
    if (interactive_) {
      Note(fmt::format("[{} tokens, {:.1f} tok/s, first after {:.0f} ms]", completion.tokens.size(),
                       completion.tokens_per_second(), completion.first_token_ms));
    }
    return OkStatus();
  }

  Conversation& conversation_;
  ReasoningStyle style_;
  bool interactive_;
  bool dim_notes_;
};

Status RunChat(const ChatOptions& options) {
  QUERN_ASSIGN(const std::unique_ptr<Session> session, Session::Open(options.session));
  if (session->chat_template() == nullptr) {
    return FailedPrecondition(
        "{}: has no chat template (chat_template.jinja, or chat_template in "
        "tokenizer_config.json); "
        "`quern generate {} -p TEXT` completes text without one",
        session->directory(), session->directory());
  }
  InterruptFlag interrupt;
  Conversation conversation({session->engine(), session->tokenizer(), *session->chat_template(),
                             session->generation(), session->eos_token_ids()},
                            options.chat, options.sampling);
  return ChatLoop(conversation, ChooseStyle(options)).Run(session->name());
}

}  // namespace

ChatLine ParseChatLine(std::string_view line) {
  while (!line.empty() && (line.back() == ' ' || line.back() == '\t')) line.remove_suffix(1);
  const bool command = line.starts_with('/');
  while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
  if (line.empty()) return {};
  if (!command) return {ChatLine::Kind::kQuestion, std::string(line)};

  const size_t space = line.find_first_of(" \t\n");
  const std::string_view name = line.substr(0, space);
  std::string_view rest = space == std::string_view::npos ? "" : line.substr(space + 1);
  while (!rest.empty() && (rest.front() == ' ' || rest.front() == '\t')) rest.remove_prefix(1);
  if (name == "/help" || name == "/?") return {ChatLine::Kind::kHelp, ""};
  if (name == "/reset" || name == "/new") return {ChatLine::Kind::kReset, ""};
  if (name == "/quit" || name == "/exit" || name == "/bye") return {ChatLine::Kind::kQuit, ""};
  if (name == "/system") return {ChatLine::Kind::kSystem, std::string(rest)};
  if (name == "/think") return {ChatLine::Kind::kThink, std::string(rest)};
  return {ChatLine::Kind::kUnknown, std::string(name)};
}

void AddChatCommand(CLI::App& app, CommandResult& result) {
  auto options = std::make_shared<ChatOptions>();
  CLI::App* command = app.add_subcommand("chat", "Talk to a model in the terminal");
  command->footer(
      "Piped input is answered line by line, each line one turn of the same conversation; stdout "
      "then holds the\n"
      "answers only:\n"
      "  printf 'Hello\\nAnd now in French\\n' | quern chat MODEL --temperature 0\n"
      "In the conversation:\n" +
      std::string(kHelp));
  AddSessionOptions(*command, options->session);
  AddChatFlags(*command, options->chat);
  AddSamplingFlags(*command, options->sampling);
  CLI::Option* show =
      command->add_flag("--show-reasoning", options->show_reasoning,
                        "Print reasoning in pipes too, between [reasoning] and [answer]");
  command->add_flag("--hide-reasoning", options->hide_reasoning, "Print answers only")
      ->excludes(show);
  command->callback([options, &result] { result.status = RunChat(*options); });
}

}  // namespace quern::cli
