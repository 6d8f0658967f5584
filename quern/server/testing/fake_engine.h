// An engine without a model: it says what a test scripts, token by token, on a thread of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "quern/engine/engine.h"
#include "quern/text/tokenizer.h"

namespace quern::server {

// What one request gets.
struct Script {
  std::string text;                    // tokenized, then given a token per event
  std::chrono::microseconds delay{0};  // before each token
  engine::FinishReason finish = engine::FinishReason::kStop;
  std::string error;           // not empty: fails with it instead of finishing
  Status submit = OkStatus();  // not ok: Submit refuses
};

// Keeps the engine's contract (events in order, exactly one last one, stop strings, max_tokens,
// cancel), with all requests running side by side. Thread-safe. `tokenizer` must outlive it.
class FakeEngine : public engine::Engine {
 public:
  using Scripter = std::function<Script(const engine::Request& request)>;

  FakeEngine(const text::Tokenizer& tokenizer, Scripter scripter, int64_t max_model_len = 100'000);
  ~FakeEngine() override;

  Result<engine::RequestId> Submit(engine::Request request, engine::EventSink sink) override;
  void Cancel(engine::RequestId id) override;
  void Shutdown(int64_t grace_ms) override;
  engine::EngineStats Stats() const override;
  int64_t max_model_len() const override { return max_model_len_; }
  int64_t vocab_size() const override { return tokenizer_.vocab_size(); }

  // What was submitted, in order.
  std::vector<engine::Request> requests() const;

 private:
  struct Sequence;
  using Clock = std::chrono::steady_clock;

  void Loop();
  // One token, or the last event, of one sequence. True when it has ended.
  bool Step(Sequence& sequence);
  void Finish(Sequence& sequence, engine::TokenEvent event);

  const text::Tokenizer& tokenizer_;
  const Scripter scripter_;
  const int64_t max_model_len_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<engine::RequestId, std::unique_ptr<Sequence>> running_;
  std::vector<engine::Request> requests_;
  engine::EngineStats stats_;
  engine::RequestId next_id_ = 1;
  bool refuses_ = false;
  bool stop_ = false;
  std::thread thread_;
};

// Says what the prompt asks it to. Inside the prompt's text (the last of each counts):
//   [[say]]TEXT[[/say]]   the answer is TEXT; without it, a fixed sentence
//   [[repeat N]]          TEXT N times
//   [[delay N]]           N ms before each token
//   [[fail]]              the request fails after its text
//   [[busy]]              the engine's queue is full
// `\/` in TEXT stands for "/", so that a template that looks for "</think>" in messages does not
// find one.
FakeEngine::Scripter ObedientScripter(const text::Tokenizer& tokenizer);

}  // namespace quern::server
