#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "quern/backend/ref/ref_backend.h"
#include "quern/engine/engine.h"
#include "quern/model/model.h"
#include "quern/text/tokenizer.h"

namespace quern::engine {
namespace {

// Next token = (last token + 1) % 100, by a wide margin. Counts steps and the rows of each.
class CountingModel : public model::Model {
 public:
  explicit CountingModel(backend::Backend& be) : be_(be) {
    config_.num_layers = 1;
    config_.vocab_size = 576;
    config_.max_positions = 512;
    config_.kv_lora_rank = 2;
    config_.indexer_types = {checkpoint::IndexerType::kNone};
  }
  const checkpoint::ModelConfig& config() const override { return config_; }
  backend::Backend& backend() const override { return be_; }
  int64_t weight_bytes() const override { return 0; }
  Status Forward(const model::StepBatch& batch, const model::KvView&,
                 std::vector<float>& logits) override {
    if (fail_at >= 0 && batch.positions.back() >= fail_at) return Internal("the device is on fire");
    step_rows.push_back(batch.tokens.size());
    logits.assign(batch.logit_rows.size() * 576, 0.0f);
    for (size_t i = 0; i < batch.logit_rows.size(); ++i) {
      const int32_t last = batch.tokens[static_cast<size_t>(batch.logit_rows[i])];
      logits[i * 576 + static_cast<size_t>((last + 1) % 100)] = 50.0f;
    }
    if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return OkStatus();
  }
  // Drafts the next token, and a wrong one behind every seventh.
  bool has_mtp() const override { return with_mtp; }
  Status Draft(const model::DraftBatch& batch, const model::KvView&,
               std::vector<float>& logits) override {
    for (size_t i = 0; i < batch.rows.positions.size(); ++i)
      draft_rows.push_back(batch.rows.positions[i]);
    drafted_from.clear();
    for (int32_t row : batch.rows.logit_rows) {
      drafted_from.push_back(batch.rows.tokens[static_cast<size_t>(row)]);
    }
    Guess(logits);
    return OkStatus();
  }
  Status DraftNext(std::span<const int32_t> rows, std::span<const int32_t> tokens,
                   const model::KvView&, std::vector<float>& logits) override {
    EXPECT_EQ(rows.size(), tokens.size());
    if (fail_drafts) return Internal("no drafts today");
    drafted_from.assign(tokens.begin(), tokens.end());
    Guess(logits);
    return OkStatus();
  }
  void Guess(std::vector<float>& logits) const {
    logits.assign(drafted_from.size() * 576, 0.0f);
    for (size_t i = 0; i < drafted_from.size(); ++i) {
      const int32_t next = drafted_from[i] % 7 == 0 ? 99 : (drafted_from[i] + 1) % 100;
      logits[i * 576 + static_cast<size_t>(next)] = 50.0f;
    }
  }

  std::vector<size_t> step_rows;
  std::vector<int32_t> draft_rows;  // positions that Draft saw
  std::vector<int32_t> drafted_from;
  bool with_mtp = false, fail_drafts = false;
  int32_t fail_at = -1;
  bool slow = false;

 private:
  checkpoint::ModelConfig config_;
  backend::Backend& be_;
};

// Collects the events of one request.
class Collector {
 public:
  EventSink Sink() {
    return [this](const TokenEvent& e) {
      std::lock_guard lock(mutex_);
      events_.push_back(e);
      changed_.notify_all();
    };
  }
  TokenEvent WaitLast() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock,
                  [&] { return !events_.empty() && events_.back().finish != FinishReason::kNone; });
    return events_.back();
  }
  void WaitTokens(size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return events_.size() >= n; });
  }
  std::vector<int32_t> Tokens() {
    std::lock_guard lock(mutex_);
    std::vector<int32_t> tokens;
    for (const auto& e : events_) {
      if (e.has_token) tokens.push_back(e.token);
    }
    return tokens;
  }
  std::string Text() {
    std::lock_guard lock(mutex_);
    std::string text;
    for (const auto& e : events_) text += e.text;
    return text;
  }
  size_t NumLast() {
    std::lock_guard lock(mutex_);
    return static_cast<size_t>(std::count_if(events_.begin(), events_.end(), [](const auto& e) {
      return e.finish != FinishReason::kNone;
    }));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TokenEvent> events_;
};

class BatchEngineTest : public testing::Test {
 protected:
  void SetUp() override {
    tokenizer_ =
        *text::Tokenizer::FromFile(QUERN_SOURCE_DIR "/tests/data/tokenizer/tokenizer.json");
    backend_ = backend::CreateRefBackend();
    model_ = std::make_unique<CountingModel>(*backend_);
  }
  void Start(EngineOptions options = {}) { engine_ = *CreateEngine(*model_, *tokenizer_, options); }
  static Request Greedy(std::vector<int32_t> prompt, int32_t max_tokens) {
    Request r;
    r.prompt = std::move(prompt);
    r.sampling.temperature = 0;
    r.max_tokens = max_tokens;
    return r;
  }

  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::unique_ptr<backend::Backend> backend_;
  std::unique_ptr<CountingModel> model_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(BatchEngineTest, GeneratesUntilTheLimit) {
  Start();
  Collector c;
  ASSERT_TRUE(engine_->Submit(Greedy({5, 6}, 4), c.Sink()).ok());
  const TokenEvent last = c.WaitLast();
  EXPECT_EQ(last.finish, FinishReason::kLength);
  EXPECT_EQ(last.num_prompt_tokens, 2);
  EXPECT_EQ(last.num_completion_tokens, 4);
  EXPECT_EQ(c.Tokens(), (std::vector<int32_t>{7, 8, 9, 10}));
  EXPECT_EQ(c.Text(), *tokenizer_->Decode(c.Tokens(), true));
}

TEST_F(BatchEngineTest, PromptsRunInChunks) {
  Start({.prefill_chunk = 4});
  Collector c;
  ASSERT_TRUE(engine_->Submit(Greedy(std::vector<int32_t>(10, 3), 2), c.Sink()).ok());
  c.WaitLast();
  EXPECT_EQ(model_->step_rows, (std::vector<size_t>{4, 4, 2, 1}));
}

TEST_F(BatchEngineTest, StopTokenEndsAndIsNotInTheText) {
  Start();
  Request r = Greedy({5}, 10);
  r.stop_token_ids = {8};
  Collector c;
  ASSERT_TRUE(engine_->Submit(r, c.Sink()).ok());
  const TokenEvent last = c.WaitLast();
  EXPECT_EQ(last.finish, FinishReason::kStop);
  EXPECT_EQ(last.num_completion_tokens, 3);
  EXPECT_EQ(c.Tokens(), (std::vector<int32_t>{6, 7}));
  r.ignore_eos = true;
  Collector ignoring;
  ASSERT_TRUE(engine_->Submit(r, ignoring.Sink()).ok());
  EXPECT_EQ(ignoring.WaitLast().num_completion_tokens, 10);
}

TEST_F(BatchEngineTest, StopStringCutsTheTextExactly) {
  Start();
  Request r = Greedy({30}, 40);
  Collector whole;
  ASSERT_TRUE(engine_->Submit(r, whole.Sink()).ok());
  whole.WaitLast();
  const std::string text = whole.Text();
  ASSERT_GT(text.size(), 12u);
  r.stop_strings = {text.substr(5, 4)};
  Collector cut;
  ASSERT_TRUE(engine_->Submit(r, cut.Sink()).ok());
  const TokenEvent last = cut.WaitLast();
  EXPECT_EQ(last.finish, FinishReason::kStop);
  EXPECT_EQ(last.stop_string, r.stop_strings[0]);
  EXPECT_EQ(cut.Text(), text.substr(0, text.find(r.stop_strings[0])));
}

TEST_F(BatchEngineTest, LogprobsComeWithEachToken) {
  Start();
  Request r = Greedy({5}, 3);
  r.num_top_logprobs = 2;
  std::vector<TokenEvent> events;
  Collector c;
  const EventSink count = c.Sink();
  ASSERT_TRUE(engine_
                  ->Submit(r,
                           [&](const TokenEvent& e) {
                             events.push_back(e);
                             count(e);
                           })
                  .ok());
  c.WaitLast();
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].logprob.token, 6);
  EXPECT_NEAR(events[0].logprob.logprob, 0.0f, 1e-4f);
  ASSERT_EQ(events[0].top_logprobs.size(), 2u);
  EXPECT_EQ(events[0].top_logprobs[0].token, 6);
  EXPECT_EQ(events[0].top_logprobs[1].token, 0);
}

TEST_F(BatchEngineTest, ManyRequestsFromManyThreadsAllFinish) {
  Start();
  std::vector<Collector> collectors(50);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < collectors.size(); ++i) {
    threads.emplace_back([&, i] {
      ASSERT_TRUE(engine_->Submit(Greedy({static_cast<int32_t>(i)}, 5), collectors[i].Sink()).ok());
    });
  }
  for (auto& t : threads) t.join();
  for (size_t i = 0; i < collectors.size(); ++i) {
    EXPECT_EQ(collectors[i].WaitLast().finish, FinishReason::kLength);
    EXPECT_EQ(collectors[i].Tokens().front(), static_cast<int32_t>(i) + 1);
  }
}

TEST_F(BatchEngineTest, CancelStopsWithinAStepAndFreesPages) {
  model_->slow = true;
  Start({.max_running = 1});
  Collector running, waiting;
  const RequestId id = *engine_->Submit(Greedy({1}, 500), running.Sink());
  const RequestId queued = *engine_->Submit(Greedy({1}, 500), waiting.Sink());
  running.WaitTokens(3);
  engine_->Cancel(queued);
  engine_->Cancel(id);
  engine_->Cancel(99999);  // unknown: ignored
  EXPECT_EQ(running.WaitLast().finish, FinishReason::kCancelled);
  EXPECT_EQ(waiting.WaitLast().finish, FinishReason::kCancelled);
  EXPECT_LT(running.Tokens().size(), 100u);
  EXPECT_TRUE(waiting.Tokens().empty());
  engine_->Shutdown(1000);
  EXPECT_EQ(engine_->Stats().kv_pages_used, 0);
  EXPECT_EQ(engine_->Stats().requests_cancelled, 2);
}

TEST_F(BatchEngineTest, AFailedStepFailsItsRequestOnly) {
  model_->fail_at = 3;
  Start();
  Collector bad, good;
  ASSERT_TRUE(engine_->Submit(Greedy({1, 2, 3}, 9), bad.Sink()).ok());
  const TokenEvent last = bad.WaitLast();
  EXPECT_EQ(last.finish, FinishReason::kError);
  EXPECT_EQ(last.error_message, "the device is on fire");
  ASSERT_TRUE(engine_->Submit(Greedy({1}, 2), good.Sink()).ok());
  EXPECT_EQ(good.WaitLast().finish, FinishReason::kLength);
  EXPECT_EQ(bad.NumLast(), 1u);
}

TEST_F(BatchEngineTest, RefusesWhatCanNeverRun) {
  Start();
  Collector c;
  const auto message = [&](Request r) {
    return engine_->Submit(std::move(r), c.Sink()).status().message();
  };
  EXPECT_EQ(message(Greedy({}, 1)), "prompt: it has no tokens; give at least one");
  EXPECT_NE(message(Greedy({100000}, 1)).find("100000"), std::string::npos);
  EXPECT_EQ(message(Greedy({1}, 512)),
            "prompt 1 + max_tokens 512 = 513 tokens, over the limit of 512; shorten either");
  Request r = Greedy({1}, 1);
  r.sampling.top_p = 0;
  EXPECT_NE(message(r).find("top_p"), std::string::npos);
  r = Greedy({1}, 1);
  r.sampling.logit_bias = {{-4, 1.0f}};
  EXPECT_NE(message(r).find("logit_bias"), std::string::npos);
}

TEST_F(BatchEngineTest, DraftsSaveStepsAndChangeNothing) {
  model_->with_mtp = true;
  Start({.draft = {.mode = DraftMode::kFixed, .num_drafts = 5}});
  Collector c;
  ASSERT_TRUE(engine_->Submit(Greedy({1, 2, 3}, 60), c.Sink()).ok());
  const TokenEvent last = c.WaitLast();
  std::vector<int32_t> want;
  for (int32_t t = 4; t < 64; ++t) want.push_back(t);
  EXPECT_EQ(c.Tokens(), want);
  EXPECT_EQ(last.num_completion_tokens, 60);
  EXPECT_GT(last.num_accepted, 30);
  EXPECT_GT(last.num_drafted, last.num_accepted);
  EXPECT_LT(model_->step_rows.size(), 20u);
  const EngineStats stats = engine_->Stats();
  EXPECT_GT(stats.accepted[0], 0);
  EXPECT_GE(stats.drafted[0], stats.drafted[4]);
  // The MTP layer saw each position that is settled once, in order.
  for (size_t i = 0; i < model_->draft_rows.size(); ++i) {
    ASSERT_EQ(model_->draft_rows[i], static_cast<int32_t>(i));
  }
  EXPECT_GE(model_->draft_rows.size(), 56u);
}

TEST_F(BatchEngineTest, SimulatedAcceptanceHasItsLengthAndIsMarked) {
  model_->with_mtp = true;
  Start({.draft = {.mode = DraftMode::kFixed, .num_drafts = 5, .simulated_accept_length = 3.5}});
  Collector c;
  ASSERT_TRUE(engine_->Submit(Greedy({1, 2, 3}, 400), c.Sink()).ok());
  const TokenEvent last = c.WaitLast();
  EXPECT_TRUE(last.simulated);
  EXPECT_EQ(c.Tokens().size(), 400u);
  EXPECT_NEAR(400.0 / static_cast<double>(model_->step_rows.size()), 3.5, 0.25);
}

TEST_F(BatchEngineTest, FailedDraftsEndDraftingNotTheRequest) {
  model_->with_mtp = true;
  model_->fail_drafts = true;
  Start({.draft = {.mode = DraftMode::kFixed, .num_drafts = 3}});
  Collector c;
  ASSERT_TRUE(engine_->Submit(Greedy({1}, 20), c.Sink()).ok());
  EXPECT_EQ(c.WaitLast().finish, FinishReason::kLength);
  EXPECT_EQ(c.Tokens().size(), 20u);
}

TEST_F(BatchEngineTest, PriorityIsServedEarlierAndArrivalDecidesAmongEquals) {
  model_->slow = true;
  Start({.max_running = 1});
  Collector first, low, high;
  ASSERT_TRUE(engine_->Submit(Greedy({1}, 40), first.Sink()).ok());
  first.WaitTokens(1);
  ASSERT_TRUE(engine_->Submit(Greedy({1}, 20), low.Sink()).ok());
  Request urgent = Greedy({1}, 2);
  urgent.priority = -1;
  ASSERT_TRUE(engine_->Submit(urgent, high.Sink()).ok());
  high.WaitLast();
  EXPECT_TRUE(low.Tokens().empty());
  EXPECT_EQ(low.WaitLast().finish, FinishReason::kLength);
}

TEST_F(BatchEngineTest, QueueLimitAndShutdown) {
  model_->slow = true;
  Start({.max_running = 1, .max_queued = 1});
  Collector a, b, c;
  ASSERT_TRUE(engine_->Submit(Greedy({1}, 500), a.Sink()).ok());
  a.WaitTokens(1);
  ASSERT_TRUE(engine_->Submit(Greedy({1}, 5), b.Sink()).ok());
  EXPECT_EQ(engine_->Submit(Greedy({1}, 5), c.Sink()).status().code(),
            StatusCode::kResourceExhausted);
  engine_->Shutdown(20);  // neither can finish in 20 ms
  EXPECT_EQ(a.WaitLast().finish, FinishReason::kCancelled);
  EXPECT_EQ(b.WaitLast().finish, FinishReason::kCancelled);
  EXPECT_EQ(engine_->Submit(Greedy({1}, 5), c.Sink()).status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace quern::engine
