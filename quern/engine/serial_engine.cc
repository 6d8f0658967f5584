#include "quern/engine/serial_engine.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "quern/text/tokenizer.h"

namespace quern::engine {

using backend::kPageTokens;

SerialEngine::SerialEngine(model::Model& model, const text::Tokenizer& tokenizer,
                           const EngineOptions& options, std::unique_ptr<cache::KvCache> cache,
                           int64_t max_model_len)
    : model_(model),
      tokenizer_(tokenizer),
      options_(options),
      max_model_len_(max_model_len),
      num_tokens_(std::min<int64_t>(tokenizer.vocab_size(), model.config().vocab_size)),
      cache_(std::move(cache)),
      pages_(cache_->num_pages()),
      thread_([this] { Loop(); }) {}

SerialEngine::~SerialEngine() {
  Shutdown(0);
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

Status SerialEngine::Validate(const Request& r) const {
  if (r.prompt.empty()) return InvalidArgument("prompt: it has no tokens; give at least one");
  for (int32_t token : r.prompt) {
    if (token < 0 || token >= num_tokens_) {
      return InvalidArgument("prompt: token id {} is outside the vocabulary of {}", token,
                             num_tokens_);
    }
  }
  if (r.max_tokens < 1)
    return InvalidArgument("max_tokens: {} given, at least 1 wanted", r.max_tokens);
  const int64_t prompt_len = static_cast<int64_t>(r.prompt.size());
  if (prompt_len + r.max_tokens > max_model_len_) {
    return InvalidArgument(
        "prompt {} + max_tokens {} = {} tokens, over the limit of {}; shorten either", prompt_len,
        r.max_tokens, prompt_len + r.max_tokens, max_model_len_);
  }
  const SamplingParams& s = r.sampling;
  if (!(s.temperature >= 0) || !std::isfinite(s.temperature)) {
    return InvalidArgument("temperature: {} given, at least 0 wanted", s.temperature);
  }
  if (!(s.top_p > 0 && s.top_p <= 1))
    return InvalidArgument("top_p: {} given, (0, 1] wanted", s.top_p);
  if (!(s.min_p >= 0 && s.min_p <= 1))
    return InvalidArgument("min_p: {} given, [0, 1] wanted", s.min_p);
  if (s.top_k < 0) return InvalidArgument("top_k: {} given, 0 (off) or more wanted", s.top_k);
  if (!(s.repetition_penalty > 0) || !std::isfinite(s.repetition_penalty)) {
    return InvalidArgument("repetition_penalty: {} given, more than 0 wanted",
                           s.repetition_penalty);
  }
  for (const auto& [token, bias] : s.logit_bias) {
    if (token < 0 || token >= num_tokens_ || std::isnan(bias)) {
      return InvalidArgument(
          "logit_bias: token id {} with bias {}; ids below {} and numbers wanted", token, bias,
          num_tokens_);
    }
  }
  return OkStatus();
}

Result<RequestId> SerialEngine::Submit(Request request, EventSink sink) {
  QUERN_TRY(Validate(request));
  std::lock_guard lock(mutex_);
  if (!accepting_) return Unavailable("the server is shutting down");
  if (static_cast<int64_t>(waiting_.size()) >= options_.max_queued) {
    return ResourceExhausted("{} requests are waiting already; try again later", waiting_.size());
  }
  const RequestId id = next_id_++;
  waiting_.push_back(
      std::make_shared<Sequence>(id, std::move(request), std::move(sink), tokenizer_, num_tokens_));
  wake_.notify_one();
  return id;
}

void SerialEngine::Cancel(RequestId id) {
  std::lock_guard lock(mutex_);
  if (running_ != nullptr && running_->id() == id) running_->cancelled = true;
  for (auto& sequence : waiting_) {
    if (sequence->id() == id) sequence->cancelled = true;
  }
  wake_.notify_one();
}

void SerialEngine::Shutdown(int64_t grace_ms) {
  std::unique_lock lock(mutex_);
  accepting_ = false;
  const auto is_idle = [&] { return waiting_.empty() && running_ == nullptr; };
  if (idle_.wait_for(lock, std::chrono::milliseconds(grace_ms), is_idle)) return;
  for (auto& sequence : waiting_) sequence->cancelled = true;
  if (running_ != nullptr) running_->cancelled = true;
  idle_.wait(lock, is_idle);
}

EngineStats SerialEngine::Stats() const {
  std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  stats.num_running = running_ != nullptr ? 1 : 0;
  stats.num_waiting = static_cast<int64_t>(waiting_.size());
  stats.kv_pages_total = cache_->num_pages();
  return stats;
}

void SerialEngine::Loop() {
  while (true) {
    std::shared_ptr<Sequence> next;
    {
      std::unique_lock lock(mutex_);
      idle_.notify_all();
      wake_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
      if (stop_) return;
      // Cancelled requests leave first: they need no step.
      auto it = std::find_if(waiting_.begin(), waiting_.end(),
                             [](const auto& s) { return s->cancelled.load(); });
      if (it == waiting_.end()) it = waiting_.begin();
      next = std::move(*it);
      waiting_.erase(it);
      running_ = next;
    }
    Run(*next);
    std::lock_guard lock(mutex_);
    Record(*next);
    running_ = nullptr;
  }
}

void SerialEngine::Run(Sequence& sequence) {
  // Submit made sure that the longest outcome fits the cache, and no other sequence holds pages.
  const bool got =
      sequence.cancelled ||
      pages_.Take((sequence.max_len() + kPageTokens - 1) / kPageTokens, sequence.pages);
  QUERN_CHECK(got, "{} of {} pages are in use while nothing runs", pages_.num_used(),
              pages_.num_pages());
  while (!sequence.finished()) {
    if (sequence.cancelled) {
      sequence.Finish(FinishReason::kCancelled);
    } else if (Status status = Step(sequence); !status.ok()) {
      sequence.Finish(FinishReason::kError, status.message());
    } else if (sequence.num_computed == static_cast<int64_t>(sequence.tokens().size())) {
      sequence.Advance(logits_);
    }
    std::lock_guard lock(mutex_);
    stats_.kv_pages_used = pages_.num_used();
  }
  pages_.Give(sequence.pages);
}

Status SerialEngine::Step(Sequence& sequence) {
  const std::vector<int32_t>& tokens = sequence.tokens();
  const int64_t begin = sequence.num_computed;
  const int64_t end =
      std::min<int64_t>(begin + options_.prefill_chunk, static_cast<int64_t>(tokens.size()));
  model::StepBatch batch;
  batch.tokens.assign(tokens.begin() + begin, tokens.begin() + end);
  for (int64_t p = begin; p < end; ++p) batch.positions.push_back(static_cast<int32_t>(p));
  batch.sequences.assign(static_cast<size_t>(end - begin), 0);
  batch.page_tables = sequence.pages;
  batch.max_pages = static_cast<int64_t>(sequence.pages.size());
  if (end == static_cast<int64_t>(tokens.size()))
    batch.logit_rows = {static_cast<int32_t>(end - begin - 1)};
  QUERN_TRY(model_.Forward(batch, cache_->view(), logits_));
  sequence.num_computed = end;
  return OkStatus();
}

void SerialEngine::Record(const Sequence& sequence) {
  stats_.kv_pages_used = pages_.num_used();
  stats_.prompt_tokens += sequence.prompt_len();
  stats_.generated_tokens += sequence.num_generated();
  switch (sequence.finish_reason()) {
    case FinishReason::kStop:
      ++stats_.requests_finished_stop;
      break;
    case FinishReason::kLength:
      ++stats_.requests_finished_length;
      break;
    case FinishReason::kCancelled:
      ++stats_.requests_cancelled;
      break;
    default:
      ++stats_.requests_failed;
      break;
  }
}

}  // namespace quern::engine
