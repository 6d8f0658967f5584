// Runs all requests together: one ragged batch per step.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "quern/cache/kv_cache.h"
#include "quern/engine/drafting/draft_controller.h"
#include "quern/engine/drafting/drafter.h"
#include "quern/engine/page_archive.h"
#include "quern/engine/scheduling/scheduler.h"
#include "quern/engine/scheduling/step_costs.h"
#include "quern/model/model.h"

namespace quern::engine {

// The engine behind CreateEngine. Its thread owns model, cache, scheduler and sequences; see
// README.md.
class BatchEngine final : public Engine {
 public:
  BatchEngine(model::Model& model, const text::Tokenizer& tokenizer, const EngineOptions& options,
              std::unique_ptr<cache::KvCache> cache, std::unique_ptr<cache::DiskStore> store,
              int64_t max_model_len);
  ~BatchEngine() override;

  Result<RequestId> Submit(Request request, EventSink sink) override;
  void Cancel(RequestId id) override;
  void Shutdown(int64_t grace_ms) override;
  EngineStats Stats() const override;
  int64_t max_model_len() const override { return max_model_len_; }
  int64_t vocab_size() const override { return num_tokens_; }

 private:
  using Sequences = std::vector<std::shared_ptr<Sequence>>;

  void Loop();
  // Waits for something to do; false when the engine is to stop.
  bool TakeArrivals();
  void Step();
  Status Execute(const StepPlan& plan);
  void Settle(const StepPlan& plan);
  void Advance(const StepPart& part, size_t logit_row);
  int64_t SimulatedAcceptance(const StepPart& part) const;
  void EndFinished(const Sequences& sequences);
  void Publish();

  model::Model& model_;
  const text::Tokenizer& tokenizer_;
  const EngineOptions options_;
  const int64_t max_model_len_;
  const int64_t num_tokens_;  // ids that may be drawn

  // Owned by the thread.
  std::unique_ptr<cache::KvCache> cache_;
  cache::PagePool pool_;
  cache::PrefixTree tree_;
  std::unique_ptr<PageArchive> archive_;  // with --cache-dir
  Scheduler scheduler_;
  StepCosts costs_;
  DraftController draft_controller_;
  Drafter drafter_;
  std::vector<float> logits_;
  EngineStats own_stats_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;  // for the thread: arrivals, cancels, stop
  std::condition_variable idle_;  // for Shutdown: nothing is left
  std::unordered_map<RequestId, std::shared_ptr<Sequence>> live_;
  Sequences arrivals_;
  EngineStats stats_;
  RequestId next_id_ = 1;
  bool accepting_ = true, stop_ = false, cancels_ = false;

  std::thread thread_;  // last: it uses all of the above
};

// Whether the request can ever run: names the field that cannot. `num_tokens` ids may be drawn.
Status ValidateRequest(const Request& request, int64_t num_tokens, int64_t max_model_len);

}  // namespace quern::engine
