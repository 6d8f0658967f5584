// What one request feels of the engine's cache and of other requests, in ratios measured side by
// side: the second turn of a chat against its first, and the time between tokens while another
// prompt is computed against the time without it. `quern bench batch` measures decoding by number
// of streams and drafts.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>

#include "quern/backend/cpu/cpu_backend.h"
#include "quern/engine/engine.h"
#include "quern/model/model.h"
#include "quern/testing/checkpoint_writer.h"
#include "quern/testing/model_runner.h"
#include "quern/text/tokenizer.h"

namespace quern {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double Milliseconds(Clock::duration d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}

// A random model with MXFP4 experts, written and loaded once.
struct Subject {
  std::unique_ptr<backend::Backend> backend = backend::CreateCpuBackend();
  std::unique_ptr<model::Model> model;
  std::unique_ptr<text::Tokenizer> tokenizer =
      text::Tokenizer::FromFile(QUERN_SOURCE_DIR "/tests/data/tokenizer/tokenizer.json").value();

  Subject() {
    const fs::path directory = fs::temp_directory_path() / "quern-engine-bench";
    testing::CheckpointSpec spec;
    spec.config = testing::PresetConfig("mid-dsa").value();
    spec.layout = testing::LayoutFromName("quark-mxfp4").value();
    const Status written = testing::WriteCheckpoint(directory.string(), spec);
    QUERN_CHECK(written.ok(), "{}", written.ToString());
    std::vector<std::string> warnings;
    model = model::LoadModel(directory.string(), *backend, {}, warnings).value();
    fs::remove_all(directory);
  }
};

std::unique_ptr<engine::Engine> Start(int64_t max_model_len) {
  static Subject subject;
  return engine::CreateEngine(*subject.model, *subject.tokenizer, {.max_model_len = max_model_len})
      .value();
}

// Times of one request's tokens.
class Stream {
 public:
  void Submit(engine::Engine& engine, std::vector<int32_t> prompt, int32_t max_tokens) {
    engine::Request request;
    request.prompt = std::move(prompt);
    request.sampling.temperature = 0;
    request.max_tokens = max_tokens;
    request.ignore_eos = true;
    start_ = Clock::now();
    const auto id = engine.Submit(std::move(request), [this](const engine::TokenEvent& e) {
      std::lock_guard lock(mutex_);
      if (e.has_token) {
        times_.push_back(Clock::now());
        tokens_.push_back(e.token);
      }
      if (e.finish != engine::FinishReason::kNone) ended_ = true;
      changed_.notify_all();
    });
    QUERN_CHECK(id.ok(), "{}", id.status().ToString());
    id_ = id.value();
  }
  void WaitForTokens(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ || times_.size() >= count; });
  }
  void WaitForEnd() { WaitForTokens(SIZE_MAX); }
  engine::RequestId id() const { return id_; }
  double first_token_ms() const { return Milliseconds(times_[0] - start_); }
  std::vector<int32_t> tokens() const {
    std::lock_guard lock(mutex_);
    return tokens_;
  }
  size_t num_tokens() const { return tokens().size(); }
  // Gaps between the tokens from number `first` to number `last`.
  std::vector<double> Gaps(size_t first, size_t last) const {
    std::lock_guard lock(mutex_);
    std::vector<double> gaps;
    for (size_t i = first + 1; i <= last && i < times_.size(); ++i)
      gaps.push_back(Milliseconds(times_[i] - times_[i - 1]));
    return gaps;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Clock::time_point start_;
  std::vector<Clock::time_point> times_;
  std::vector<int32_t> tokens_;
  bool ended_ = false;
  engine::RequestId id_ = 0;
};

// A chat of `context` tokens is answered; then its next turn, 32 tokens more.
void BM_SecondTurn(benchmark::State& state) {
  const int64_t context = state.range(0);
  const auto engine = Start(context + 256);
  std::vector<double> cold, second;
  for (auto _ : state) {
    std::vector<int32_t> prompt =
        testing::MakeTokens(context, 500, static_cast<uint64_t>(cold.size()) + 1);
    Stream first;
    first.Submit(*engine, prompt, 64);
    first.WaitForEnd();
    cold.push_back(first.first_token_ms());
    const std::vector<int32_t> answer = first.tokens();
    prompt.insert(prompt.end(), answer.begin(), answer.end());
    const std::vector<int32_t> more = testing::MakeTokens(32, 500, cold.size() + 1000);
    prompt.insert(prompt.end(), more.begin(), more.end());
    Stream next;
    next.Submit(*engine, prompt, 2);
    next.WaitForEnd();
    second.push_back(next.first_token_ms());
    state.SetIterationTime(second.back() / 1e3);
  }
  state.counters["cold_ttft_ms"] = Quantile(cold, 0.5);
  state.counters["second_ttft_ms"] = Quantile(second, 0.5);
  state.counters["ratio"] = Quantile(second, 0.5) / Quantile(cold, 0.5);
}
BENCHMARK(BM_SecondTurn)
    ->ArgName("context")
    ->Arg(4096)
    ->UseManualTime()
    ->Iterations(5)
    ->Unit(benchmark::kMillisecond);

// One stream decodes; then another request with a long prompt arrives.
void BM_DecodeBesidePrefill(benchmark::State& state) {
  const int64_t prompt = state.range(0);
  const auto engine = Start(prompt + 64);
  for (auto _ : state) {
    Stream reader, other;
    reader.Submit(*engine, testing::MakeTokens(100, 500, 1), static_cast<int32_t>(prompt - 100));
    reader.WaitForTokens(100);
    const size_t alone = reader.num_tokens();
    other.Submit(*engine, testing::MakeTokens(prompt, 500, 2), 1);
    other.WaitForEnd();
    const size_t beside = reader.num_tokens();
    engine->Cancel(reader.id());
    reader.WaitForEnd();
    const double median = Quantile(reader.Gaps(20, alone), 0.5);
    const double p99 = Quantile(reader.Gaps(alone, beside), 0.99);
    state.SetIterationTime(other.first_token_ms() / 1e3);
    state.counters["itl_alone_ms"] = median;
    state.counters["itl_beside_p99_ms"] = p99;
    state.counters["ratio"] = p99 / median;
    state.counters["tokens_beside"] = static_cast<double>(beside - alone);
  }
}
BENCHMARK(BM_DecodeBesidePrefill)
    ->ArgName("prompt")
    ->Arg(16384)
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace quern
