// A chat with one model: the messages so far, rendered by the checkpoint's template, answered by
// the engine.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "quern/base/json.h"
#include "quern/base/status.h"
#include "quern/checkpoint/config.h"
#include "quern/cli/completion.h"
#include "quern/engine/engine.h"
#include "quern/text/chat_template.h"
#include "quern/text/output_parser.h"
#include "quern/text/tokenizer.h"

namespace quern::cli {

// What a chat prompt depends on beside its messages.
struct ChatFlags {
  std::string system;
  bool no_think = false;
  std::string effort;  // reasoning_effort; empty: the template's default
};
void AddChatFlags(CLI::App& command, ChatFlags& flags);

// What a conversation needs of a session; all of it must outlive the conversation.
struct ChatModel {
  engine::Engine& engine;
  const text::Tokenizer& tokenizer;
  const text::ChatTemplate& chat_template;
  const checkpoint::GenerationConfig& generation;
  const std::vector<int32_t>& eos_token_ids;
};

struct Answer {
  std::string reasoning;
  std::string content;
  Completion completion;
};

// Not thread-safe.
class Conversation {
 public:
  Conversation(ChatModel model, ChatFlags chat, SamplingFlags sampling);

  // Forgets the messages; the system prompt stays.
  void Reset();
  // Sets the system prompt and starts anew.
  void SetSystem(std::string system);
  void set_thinking(bool on) { chat_.no_think = !on; }
  const Json& messages() const { return messages_; }

  // Asks the next question. `on_delta` gets reasoning and content while they come. After an error
  // the question is forgotten; an answer stopped by ctrl-C is kept as far as it came.
  Result<Answer> Ask(const std::string& question,
                     const std::function<void(const text::OutputDelta&)>& on_delta);

 private:
  ChatModel model_;
  ChatFlags chat_;
  SamplingFlags sampling_;
  Json messages_ = Json::array();
};

}  // namespace quern::cli
