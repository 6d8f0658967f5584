#include "quern/cli/conversation.h"

#include <utility>

namespace quern::cli {
namespace {

// The prompt leaves the model inside its reasoning when the template has opened it.
bool StartsInReasoning(std::string_view prompt) {
  while (!prompt.empty() && (prompt.back() == '\n' || prompt.back() == ' '))
    prompt.remove_suffix(1);
  return prompt.ends_with("<think>");
}

}  // namespace

void AddChatFlags(CLI::App& command, ChatFlags& flags) {
  const std::string group = "Conversation";
  command.add_option("--system", flags.system, "System prompt")->group(group);
  command
      .add_flag("--no-think", flags.no_think,
                "Answer without reasoning first (enable_thinking=false)")
      ->group(group);
  command
      .add_option("--effort", flags.effort,
                  "reasoning_effort for the chat template, e.g. high or max")
      ->group(group);
}

Conversation::Conversation(ChatModel model, ChatFlags chat, SamplingFlags sampling)
    : model_(model), chat_(std::move(chat)), sampling_(std::move(sampling)) {
  Reset();
}

void Conversation::Reset() {
  messages_ = Json::array();
  if (!chat_.system.empty()) {
    messages_.push_back({{"role", "system"}, {"content", chat_.system}});
  }
}

void Conversation::SetSystem(std::string system) {
  chat_.system = std::move(system);
  Reset();
}

Result<Answer> Conversation::Ask(const std::string& question,
                                 const std::function<void(const text::OutputDelta&)>& on_delta) {
  Json messages = messages_;
  messages.push_back({{"role", "user"}, {"content", question}});
  Json context = {{"messages", messages}, {"add_generation_prompt", true}};
  if (chat_.no_think) context["enable_thinking"] = false;
  if (!chat_.effort.empty()) context["reasoning_effort"] = chat_.effort;
  QUERN_ASSIGN(const std::string prompt, model_.chat_template.Render(context));
  QUERN_ASSIGN(std::vector<int32_t> tokens, model_.tokenizer.Encode(prompt));

  text::OutputParserOptions options;
  options.starts_in_reasoning = StartsInReasoning(prompt);
  text::OutputParser parser(options);
  Answer answer;
  auto take = [&](const std::vector<text::OutputDelta>& deltas) {
    for (const text::OutputDelta& delta : deltas) {
      const bool reasoning = delta.kind == text::OutputDelta::Kind::kReasoning;
      (reasoning ? answer.reasoning : answer.content) += delta.text;
      on_delta(delta);
    }
  };
  engine::Request request =
      MakeRequest(std::move(tokens), sampling_, model_.generation, model_.eos_token_ids,
                  /*max_tokens=*/0, model_.engine.max_model_len());
  QUERN_ASSIGN(answer.completion,
               Complete(model_.engine, std::move(request),
                        [&](std::string_view text) { take(parser.Push(text)); }));
  take(parser.Finish());

  Json reply = {{"role", "assistant"}, {"content", answer.content}};
  if (!answer.reasoning.empty()) reply["reasoning_content"] = answer.reasoning;
  messages.push_back(std::move(reply));
  messages_ = std::move(messages);
  return answer;
}

}  // namespace quern::cli
