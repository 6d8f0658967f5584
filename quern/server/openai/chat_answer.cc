#include "quern/server/openai/chat_answer.h"

#include <algorithm>

#include "quern/server/logprobs.h"
#include "quern/server/sse.h"

namespace quern::server {
namespace {

using text::OutputDelta;

// One choice so far: the parser, and either the joined pieces or what the next chunk must carry.
struct Choice {
  explicit Choice(const text::OutputParserOptions& options) : parser(options) {}

  text::OutputParser parser;
  bool started = false;
  std::string reasoning, content;
  Json tool_calls = Json::array();
  Json logprobs = Json::array();  // streaming: of tokens whose text is still withheld
  std::string finish_reason;
};

class ChatAnswer : public AnswerWriter {
 public:
  ChatAnswer(ChatAnswerOptions options, const text::Tokenizer& tokenizer)
      : options_(std::move(options)), tokenizer_(tokenizer), usage_(options_.num_choices) {
    for (int i = 0; i < options_.num_choices; ++i)
      choices_.push_back(std::make_unique<Choice>(options_.parser));
  }

  void Add(int index, const engine::TokenEvent& event) override {
    Choice& choice = *choices_[static_cast<size_t>(index)];
    if (!choice.started) Start(index, choice);
    if (event.has_token && options_.logprobs && !IsStopToken(event.token)) {
      choice.logprobs.push_back(ChatLogprob(tokenizer_, event));
    }
    if (!event.text.empty()) Deliver(index, choice, choice.parser.Push(event.text));
    if (event.finish == engine::FinishReason::kNone) return;
    Deliver(index, choice, choice.parser.Finish());
    End(index, choice, event);
  }

  std::string Take() override { return std::exchange(sse_, {}); }

  std::string Finish() override {
    if (!options_.stream) return DumpJson(Body());
    if (options_.include_usage) {
      Json chunk = Head("chat.completion.chunk");
      chunk["choices"] = Json::array();
      chunk["usage"] = usage_.ToJson();
      AppendSse(chunk, sse_);
    }
    sse_ += kSseDone;
    return Take();
  }

  std::string finish_reason(int index) const override {
    return choices_[static_cast<size_t>(index)]->finish_reason;
  }

 private:
  bool IsStopToken(int32_t token) const {
    const std::vector<int32_t>& ids = options_.stop_token_ids;
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  }

  Json Head(const char* object) const {
    return {{"id", options_.head.id},
            {"object", object},
            {"created", options_.head.created},
            {"model", options_.head.model},
            {"system_fingerprint", options_.head.system_fingerprint}};
  }

  void Start(int index, Choice& choice) {
    choice.started = true;
    if (options_.stream)
      AppendChunk(index, choice, {{"role", "assistant"}, {"content", ""}}, nullptr);
    if (!options_.open_tool_call.empty())
      Deliver(index, choice, choice.parser.Push(options_.open_tool_call));
  }

  void Deliver(int index, Choice& choice, const std::vector<OutputDelta>& deltas) {
    for (const OutputDelta& delta : deltas) {
      if (options_.stream) {
        AppendChunk(index, choice, DeltaJson(delta), nullptr);
      } else {
        Join(choice, delta);
      }
    }
  }

  static Json NewToolCall(const OutputDelta& delta) {
    return {{"id", RandomId("call_")},
            {"type", "function"},
            {"function", {{"name", delta.text}, {"arguments", ""}}}};
  }

  static Json DeltaJson(const OutputDelta& delta) {
    switch (delta.kind) {
      case OutputDelta::Kind::kReasoning:
        return {{"reasoning_content", delta.text}};
      case OutputDelta::Kind::kContent:
        return {{"content", delta.text}};
      case OutputDelta::Kind::kToolCallBegin: {
        Json call = {{"index", delta.tool_index}};
        call.update(NewToolCall(delta));
        return {{"tool_calls", Json::array({std::move(call)})}};
      }
      case OutputDelta::Kind::kToolCallArguments:
        break;
    }
    Json call = {{"index", delta.tool_index}, {"function", {{"arguments", delta.text}}}};
    return {{"tool_calls", Json::array({std::move(call)})}};
  }

  static void Join(Choice& choice, const OutputDelta& delta) {
    switch (delta.kind) {
      case OutputDelta::Kind::kReasoning:
        choice.reasoning += delta.text;
        break;
      case OutputDelta::Kind::kContent:
        choice.content += delta.text;
        break;
      case OutputDelta::Kind::kToolCallBegin:
        choice.tool_calls.push_back(NewToolCall(delta));
        break;
      case OutputDelta::Kind::kToolCallArguments: {
        Json& arguments =
            choice.tool_calls[static_cast<size_t>(delta.tool_index)]["function"]["arguments"];
        arguments.get_ref<std::string&>() += delta.text;
        break;
      }
    }
  }

  void End(int index, Choice& choice, const engine::TokenEvent& event) {
    if (event.finish == engine::FinishReason::kLength) {
      choice.finish_reason = "length";
    } else {
      choice.finish_reason = choice.parser.num_tool_calls() > 0 ? "tool_calls" : "stop";
    }
    usage_.Add(index, event);
    if (options_.stream) AppendChunk(index, choice, Json::object(), choice.finish_reason);
  }

  Json LogprobsJson(Choice& choice) {
    if (!options_.logprobs) return nullptr;
    Json json = {{"content", std::move(choice.logprobs)}, {"refusal", nullptr}};
    choice.logprobs = Json::array();
    return json;
  }

  void AppendChunk(int index, Choice& choice, Json delta, Json finish_reason) {
    Json chunk = Head("chat.completion.chunk");
    Json item = {{"index", index}, {"delta", std::move(delta)}};
    item["logprobs"] = choice.logprobs.empty() ? Json(nullptr) : LogprobsJson(choice);
    item["finish_reason"] = std::move(finish_reason);
    chunk["choices"] = Json::array({std::move(item)});
    if (options_.include_usage) chunk["usage"] = nullptr;
    AppendSse(chunk, sse_);
  }

  Json Body() {
    Json body = Head("chat.completion");
    body["choices"] = Json::array();
    for (int i = 0; i < options_.num_choices; ++i) {
      Choice& choice = *choices_[static_cast<size_t>(i)];
      Json message = {{"role", "assistant"}};
      const bool only_calls = choice.content.empty() && !choice.tool_calls.empty();
      message["content"] = only_calls ? Json(nullptr) : Json(std::move(choice.content));
      message["refusal"] = nullptr;
      if (!choice.reasoning.empty()) message["reasoning_content"] = std::move(choice.reasoning);
      if (!choice.tool_calls.empty()) message["tool_calls"] = std::move(choice.tool_calls);
      body["choices"].push_back({{"index", i},
                                 {"message", std::move(message)},
                                 {"logprobs", LogprobsJson(choice)},
                                 {"finish_reason", choice.finish_reason}});
    }
    body["usage"] = usage_.ToJson();
    return body;
  }

  const ChatAnswerOptions options_;
  const text::Tokenizer& tokenizer_;
  UsageCounter usage_;
  std::vector<std::unique_ptr<Choice>> choices_;
  std::string sse_;
};

}  // namespace

std::unique_ptr<AnswerWriter> MakeChatAnswer(ChatAnswerOptions options,
                                             const text::Tokenizer& tokenizer) {
  return std::make_unique<ChatAnswer>(std::move(options), tokenizer);
}

}  // namespace quern::server
