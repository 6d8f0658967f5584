#include "quern/cli/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

#include "quern/cli/interrupt.h"

namespace quern::cli {
namespace {

using engine::FinishReason;
using engine::TokenEvent;

// Plays `script` to whoever submits, from another thread. A script without an end waits for Cancel.
class ScriptedEngine : public engine::Engine {
 public:
  explicit ScriptedEngine(std::vector<TokenEvent> script) : script_(std::move(script)) {}
  ~ScriptedEngine() override {
    if (thread_.joinable()) thread_.join();
  }

  Result<engine::RequestId> Submit(engine::Request request, engine::EventSink sink) override {
    request_ = std::move(request);
    thread_ = std::thread([this, sink] {
      for (const TokenEvent& event : script_) sink(event);
      if (!script_.empty() && script_.back().finish != FinishReason::kNone) return;
      while (!cancelled_) std::this_thread::yield();
      TokenEvent last;
      last.finish = FinishReason::kCancelled;
      sink(last);
    });
    return engine::RequestId{7};
  }
  void Cancel(engine::RequestId id) override { cancelled_ = id == 7; }
  void Shutdown(int64_t) override {}
  engine::EngineStats Stats() const override { return {}; }
  int64_t max_model_len() const override { return 100; }
  int64_t vocab_size() const override { return 1000; }

 private:
  std::vector<TokenEvent> script_;
  engine::Request request_;
  std::atomic<bool> cancelled_ = false;
  std::thread thread_;
};

TokenEvent Token(int32_t token, std::string text) {
  TokenEvent event;
  event.has_token = true;
  event.token = token;
  event.text = std::move(text);
  return event;
}

TokenEvent Last(FinishReason reason) {
  TokenEvent event;
  event.finish = reason;
  event.num_prompt_tokens = 3;
  event.num_completion_tokens = 2;
  return event;
}

TEST(Complete, GathersTokensAndTextInOrder) {
  TokenEvent last = Last(FinishReason::kStop);
  last.text = "!";  // text withheld until the end
  ScriptedEngine engine({Token(5, "Hel"), Token(6, "lo"), last});
  std::vector<std::string> pieces;
  const Result<Completion> completion =
      Complete(engine, {}, [&](std::string_view text) { pieces.emplace_back(text); });
  ASSERT_TRUE(completion.ok()) << completion.status().ToString();
  EXPECT_EQ(completion->text, "Hello!");
  EXPECT_THAT(completion->tokens, testing::ElementsAre(5, 6));
  EXPECT_THAT(pieces, testing::ElementsAre("Hel", "lo", "!"));
  EXPECT_EQ(completion->finish, FinishReason::kStop);
  EXPECT_EQ(completion->num_prompt_tokens, 3);
  EXPECT_EQ(completion->num_completion_tokens, 2);
  EXPECT_GE(completion->total_ms, completion->first_token_ms);
}

TEST(Complete, AnEngineErrorIsAnError) {
  TokenEvent last = Last(FinishReason::kError);
  last.error_message = "out of pages";
  ScriptedEngine engine({Token(5, "a"), last});
  const Result<Completion> completion = Complete(engine, {}, [](std::string_view) {});
  ASSERT_FALSE(completion.ok());
  EXPECT_NE(completion.status().message().find("out of pages"), std::string::npos);
}

TEST(Complete, CtrlCCancels) {
  InterruptFlag interrupt;
  ScriptedEngine engine({Token(5, "a")});
  const Result<Completion> completion =
      Complete(engine, {}, [](std::string_view) { raise(SIGINT); });
  ASSERT_TRUE(completion.ok()) << completion.status().ToString();
  EXPECT_EQ(completion->finish, FinishReason::kCancelled);
  EXPECT_EQ(completion->text, "a");
}

TEST(MakeSampling, FlagsWinOverTheCheckpointsDefaults) {
  checkpoint::GenerationConfig defaults;
  defaults.temperature = 0.7f;
  defaults.top_p = 0.95f;
  SamplingFlags flags;
  flags.temperature = 0.0f;
  flags.seed = 11;
  const engine::SamplingParams sampling = MakeSampling(flags, defaults);
  EXPECT_EQ(sampling.temperature, 0.0f);
  EXPECT_EQ(sampling.top_p, 0.95f);
  EXPECT_EQ(sampling.top_k, 0);
  EXPECT_EQ(sampling.seed, 11u);
}

TEST(MakeRequest, DefaultLengthFitsButAGivenOneIsKept) {
  const std::vector<int32_t> prompt(90, 1);
  EXPECT_EQ(MakeRequest(prompt, {}, {}, {}, /*max_tokens=*/0, /*max_model_len=*/100).max_tokens,
            10);
  EXPECT_EQ(MakeRequest(prompt, {}, {}, {}, 256, 100).max_tokens, 10);
  EXPECT_EQ(MakeRequest(prompt, {}, {}, {}, 4, 100).max_tokens, 4);
  EXPECT_EQ(MakeRequest(prompt, {}, {}, {}, 0, 50).max_tokens,
            1);  // refused by the engine, with its reason
  SamplingFlags flags;
  flags.max_tokens = 20;
  EXPECT_EQ(MakeRequest(prompt, flags, {}, {}, 0, 100).max_tokens, 20);
}

}  // namespace
}  // namespace quern::cli
