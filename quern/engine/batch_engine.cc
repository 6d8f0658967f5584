#include "quern/engine/batch_engine.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "quern/base/log.h"
#include "quern/text/tokenizer.h"

namespace quern::engine {
namespace {

// One level of priority is worth this long in line: a request is never overtaken for ever.
constexpr double kPrioritySeconds = 10;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

BatchEngine::BatchEngine(model::Model& model, const text::Tokenizer& tokenizer,
                         const EngineOptions& options, std::unique_ptr<cache::KvCache> cache,
                         std::unique_ptr<cache::DiskStore> store, int64_t max_model_len)
    : model_(model),
      tokenizer_(tokenizer),
      options_(options),
      max_model_len_(max_model_len),
      num_tokens_(std::min<int64_t>(tokenizer.vocab_size(), model.config().vocab_size)),
      cache_(std::move(cache)),
      pool_(cache_->num_pages()),
      tree_(pool_, store != nullptr ? store->root_hash() : 0),
      archive_(store != nullptr
                   ? std::make_unique<PageArchive>(std::move(store), *cache_, pool_, tree_)
                   : nullptr),
      scheduler_({.prefill_chunk = options.prefill_chunk,
                  .max_running = options.max_running,
                  .share_prefixes = options.prefix_cache},
                 pool_, tree_),
      draft_controller_(options.draft),
      drafter_(model, cache_->view(), draft_controller_),
      thread_([this] { Loop(); }) {}

BatchEngine::~BatchEngine() {
  Shutdown(0);
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

Result<RequestId> BatchEngine::Submit(Request request, EventSink sink) {
  QUERN_TRY(ValidateRequest(request, num_tokens_, max_model_len_));
  const double priority = request.priority;
  std::lock_guard lock(mutex_);
  if (!accepting_) return Unavailable("the server is shutting down");
  const size_t waiting = arrivals_.size() + static_cast<size_t>(stats_.num_waiting);
  if (static_cast<int64_t>(waiting) >= options_.max_queued) {
    return ResourceExhausted("{} requests are waiting already; try again later", waiting);
  }
  const RequestId id = next_id_++;
  auto sequence =
      std::make_shared<Sequence>(id, std::move(request), std::move(sink), tokenizer_, num_tokens_);
  sequence->submitted = Clock::now();
  sequence->order = std::chrono::duration<double>(sequence->submitted.time_since_epoch()).count() +
                    priority * kPrioritySeconds;
  live_.emplace(id, sequence);
  arrivals_.push_back(std::move(sequence));
  wake_.notify_one();
  return id;
}

void BatchEngine::Cancel(RequestId id) {
  std::lock_guard lock(mutex_);
  const auto it = live_.find(id);
  if (it == live_.end()) return;
  it->second->cancelled = true;
  cancels_ = true;
  wake_.notify_one();
}

void BatchEngine::Shutdown(int64_t grace_ms) {
  std::unique_lock lock(mutex_);
  accepting_ = false;
  const auto is_idle = [&] { return live_.empty(); };
  if (idle_.wait_for(lock, std::chrono::milliseconds(grace_ms), is_idle)) return;
  for (auto& [id, sequence] : live_) sequence->cancelled = true;
  cancels_ = true;
  wake_.notify_one();
  idle_.wait(lock, is_idle);
}

EngineStats BatchEngine::Stats() const {
  std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  stats.num_waiting += static_cast<int64_t>(arrivals_.size());
  return stats;
}

void BatchEngine::Loop() {
  if (archive_ != nullptr) {
    tree_.OnEvict([this](const cache::PrefixTree::Node& node) { archive_->Keep(node); });
    scheduler_.OnMissing([this](cache::PrefixTree::Node* parent, std::span<const int32_t> tokens) {
      return archive_->Restore(parent, tokens);
    });
  }
  while (TakeArrivals()) {
    Sequences cancelled;
    for (const Sequences* line : {&scheduler_.running(), &scheduler_.waiting()}) {
      std::copy_if(line->begin(), line->end(), std::back_inserter(cancelled),
                   [](const auto& s) { return s->cancelled.load(); });
    }
    for (const auto& s : cancelled) s->Finish(FinishReason::kCancelled);
    EndFinished(cancelled);
    Step();
    Publish();
  }
  if (archive_ != nullptr) archive_->KeepAll();
}

bool BatchEngine::TakeArrivals() {
  Sequences arrived;
  {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] {
      return stop_ || cancels_ || !arrivals_.empty() || !scheduler_.running().empty() ||
             !scheduler_.waiting().empty();
    });
    if (stop_) return false;
    cancels_ = false;
    arrived.swap(arrivals_);
    stats_.num_waiting += static_cast<int64_t>(arrived.size());
  }
  for (auto& s : arrived) {
    s->drafting = model_.has_mtp() && draft_controller_.Starts();
    scheduler_.Add(std::move(s));
  }
  return true;
}

void BatchEngine::Step() {
  const Clock::time_point start = Clock::now();
  const StepPlan plan =
      scheduler_.Plan(costs_.PrefillRows(scheduler_.AnyDecoding(), options_.prefill_chunk));
  if (plan.parts.empty()) return;
  own_stats_.schedule_seconds += SecondsSince(start);
  Publish();  // whom the plan let in waits no more: the queue has room during this step
  ++own_stats_.steps;
  if (Status status = Execute(plan); status.ok() || plan.parts.size() == 1) {
    if (!status.ok()) plan.parts[0].sequence->Finish(FinishReason::kError, status.message());
  } else {
    // One of them broke the step; alone, it fails alone.
    for (const StepPart& part : plan.parts) {
      status = Execute({.parts = {part}});
      if (!status.ok()) part.sequence->Finish(FinishReason::kError, status.message());
    }
  }
  Sequences finished;
  for (const StepPart& part : plan.parts) {
    scheduler_.ShareFullPages(*part.sequence);
    if (part.sequence->finished()) finished.push_back(part.sequence);
  }
  EndFinished(finished);
}

// Runs the model over the plan's rows, draws tokens and makes drafts for the next step.
Status BatchEngine::Execute(const StepPlan& plan) {
  model::StepBatch batch = MakeStepBatch(plan);
  batch.keep_hidden = std::any_of(plan.parts.begin(), plan.parts.end(),
                                  [](const auto& p) { return p.sequence->drafting; });
  Clock::time_point start = Clock::now();
  QUERN_TRY(model_.Forward(batch, cache_->view(), logits_));
  const double model_seconds = SecondsSince(start);
  own_stats_.model_seconds += model_seconds;
  costs_.Observe(plan.decode_rows, plan.prefill_rows, model_seconds);
  if (plan.prefill_rows == 0 && plan.decode_rows > 0) {
    draft_controller_.ObserveStep(plan.decode_rows, model_seconds);
  }

  start = Clock::now();
  size_t logit_row = 0;
  int64_t num_decoding = 0;
  for (const StepPart& part : plan.parts) {
    Advance(part, logit_row);
    if (part.draws) logit_row += static_cast<size_t>(1 + part.num_drafts);
    num_decoding += part.sequence->num_computed + 1 == part.sequence->len() ? 1 : 0;
  }
  own_stats_.sample_seconds += SecondsSince(start);

  if (batch.keep_hidden) {
    start = Clock::now();
    drafter_.Run(plan, num_decoding);
    own_stats_.draft_seconds += SecondsSince(start);
  }
  return OkStatus();
}

// How many drafts to accept unseen; -1 when acceptance is real.
int64_t BatchEngine::SimulatedAcceptance(const StepPart& part) const {
  const double length = options_.draft.simulated_accept_length;
  if (length <= 0 || part.num_drafts == 0) return -1;
  Sequence& s = *part.sequence;
  s.simulated = true;
  const double accepted = length - 1;
  const double whole = std::floor(accepted);
  const bool one_more = UniformDraw(s.request().sampling.seed ^ 0x5EED, s.len()) < accepted - whole;
  return std::min(static_cast<int64_t>(whole) + (one_more ? 1 : 0), part.num_drafts);
}

// Draws the tokens that the part's logits decide: one, and one more for each draft that was right.
void BatchEngine::Advance(const StepPart& part, size_t logit_row) {
  Sequence& s = *part.sequence;
  if (!part.draws) {
    s.num_computed = part.end;
    return;
  }
  const size_t vocab = static_cast<size_t>(model_.config().vocab_size);
  const int64_t unseen = SimulatedAcceptance(part);
  const auto advance = [&](int64_t row) {
    s.Advance(std::span(logits_).subspan((logit_row + static_cast<size_t>(row)) * vocab, vocab),
              row < unseen ? s.drafts[static_cast<size_t>(row)] : -1);
  };
  advance(0);
  int64_t accepted = 0;
  while (!s.finished() && accepted < part.num_drafts && (unseen < 0 || accepted < unseen) &&
         s.tokens().back() == s.drafts[static_cast<size_t>(accepted)]) {
    advance(++accepted);
  }
  s.num_computed = part.end + accepted;
  draft_controller_.ObserveRound(s.draft_record, static_cast<int32_t>(part.num_drafts),
                                 static_cast<int32_t>(accepted));
  for (int64_t i = 0; i < part.num_drafts; ++i) {
    ++own_stats_.drafted[static_cast<size_t>(i)];
    if (i < accepted) ++own_stats_.accepted[static_cast<size_t>(i)];
  }
}

void BatchEngine::EndFinished(const Sequences& sequences) {
  for (const auto& s : sequences) {
    scheduler_.Remove(s);
    own_stats_.prompt_tokens += s->prompt_len();
    own_stats_.cached_tokens += std::max<int64_t>(s->num_cached, 0);
    own_stats_.generated_tokens += s->num_generated();
    switch (s->finish_reason()) {
      case FinishReason::kStop:
        ++own_stats_.requests_finished_stop;
        break;
      case FinishReason::kLength:
        ++own_stats_.requests_finished_length;
        break;
      case FinishReason::kCancelled:
        ++own_stats_.requests_cancelled;
        break;
      default:
        ++own_stats_.requests_failed;
        break;
    }
  }
  if (sequences.empty()) return;
  Publish();
  std::lock_guard lock(mutex_);
  for (const auto& s : sequences) live_.erase(s->id());
  if (live_.empty()) idle_.notify_all();
}

void BatchEngine::Publish() {
  own_stats_.num_running = static_cast<int64_t>(scheduler_.running().size());
  own_stats_.num_waiting = static_cast<int64_t>(scheduler_.waiting().size());
  own_stats_.kv_pages_total = pool_.num_pages();
  own_stats_.kv_pages_cached = tree_.num_evictable();
  own_stats_.kv_pages_used = pool_.num_used() - tree_.num_evictable();
  own_stats_.preemptions = scheduler_.num_preemptions();
  own_stats_.prefix_queries = scheduler_.prefix_queries();
  own_stats_.prefix_hits = scheduler_.prefix_hits();
  own_stats_.pages_evicted = tree_.num_evicted();
  own_stats_.bytes_read = model_.backend().bytes_read();
  own_stats_.pages_restored = archive_ != nullptr ? archive_->num_restored() : 0;
  std::lock_guard lock(mutex_);
  stats_ = own_stats_;
}

}  // namespace quern::engine
