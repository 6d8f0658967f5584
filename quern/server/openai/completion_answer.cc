#include "quern/server/openai/completion_answer.h"

#include <algorithm>

#include "quern/server/logprobs.h"
#include "quern/server/sse.h"

namespace quern::server {
namespace {

struct Choice {
  explicit Choice(bool with_top) : logprobs(with_top) {}
  std::string text;
  CompletionLogprobs logprobs;
  std::string finish_reason;
};

class CompletionAnswer : public AnswerWriter {
 public:
  CompletionAnswer(CompletionAnswerOptions options, const text::Tokenizer& tokenizer)
      : options_(std::move(options)), tokenizer_(tokenizer), usage_(options_.choices_per_prompt) {
    choices_.assign(static_cast<size_t>(options_.num_choices),
                    Choice(options_.num_top_logprobs > 0));
  }

  void Add(int index, const engine::TokenEvent& event) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    if (event.has_token && has_logprobs() && !IsStopToken(event.token))
      choice.logprobs.Add(tokenizer_, event);
    const bool ends = event.finish != engine::FinishReason::kNone;
    if (ends) {
      choice.finish_reason = event.finish == engine::FinishReason::kLength ? "length" : "stop";
      usage_.Add(index, event);
    }
    if (!options_.stream) {
      choice.text += event.text;
    } else if (!event.text.empty() || ends) {
      AppendChunk(index, choice, event.text);
    }
  }

  std::string Take() override { return std::exchange(sse_, {}); }

  std::string Finish() override {
    if (!options_.stream) return DumpJson(Body());
    if (options_.include_usage) {
      Json chunk = Head();
      chunk["choices"] = Json::array();
      chunk["usage"] = usage_.ToJson();
      AppendSse(chunk, sse_);
    }
    sse_ += kSseDone;
    return Take();
  }

  std::string finish_reason(int index) const override {
    return choices_[static_cast<size_t>(index)].finish_reason;
  }

 private:
  bool has_logprobs() const { return options_.num_top_logprobs >= 0; }

  bool IsStopToken(int32_t token) const {
    const std::vector<int32_t>& ids = options_.stop_token_ids;
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  }

  Json Head() const {
    return {{"id", options_.head.id},
            {"object", "text_completion"},
            {"created", options_.head.created},
            {"model", options_.head.model},
            {"system_fingerprint", options_.head.system_fingerprint}};
  }

  Json ChoiceJson(int index, Choice& choice, std::string text) {
    const bool show_logprobs = has_logprobs() && (!options_.stream || !choice.logprobs.empty());
    return {{"index", index},
            {"text", std::move(text)},
            {"logprobs", show_logprobs ? choice.logprobs.Take() : Json(nullptr)},
            {"finish_reason",
             choice.finish_reason.empty() ? Json(nullptr) : Json(choice.finish_reason)}};
  }

  void AppendChunk(int index, Choice& choice, const std::string& text) {
    Json chunk = Head();
    chunk["choices"] = Json::array({ChoiceJson(index, choice, text)});
    if (options_.include_usage) chunk["usage"] = nullptr;
    AppendSse(chunk, sse_);
  }

  Json Body() {
    Json body = Head();
    body["choices"] = Json::array();
    for (int i = 0; i < options_.num_choices; ++i) {
      Choice& choice = choices_[static_cast<size_t>(i)];
      body["choices"].push_back(ChoiceJson(i, choice, std::move(choice.text)));
    }
    body["usage"] = usage_.ToJson();
    return body;
  }

  const CompletionAnswerOptions options_;
  const text::Tokenizer& tokenizer_;
  UsageCounter usage_;
  std::vector<Choice> choices_;
  std::string sse_;
};

}  // namespace

std::unique_ptr<AnswerWriter> MakeCompletionAnswer(CompletionAnswerOptions options,
                                                   const text::Tokenizer& tokenizer) {
  return std::make_unique<CompletionAnswer>(std::move(options), tokenizer);
}

}  // namespace quern::server
