// An engine that runs one request after another, in order of arrival.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "quern/cache/kv_cache.h"
#include "quern/cache/page_pool.h"
#include "quern/engine/engine.h"
#include "quern/engine/sequence.h"
#include "quern/model/model.h"

namespace quern::engine {

// Threads: README.md in this folder. `mutex_` guards the queue, the running sequence's identity,
// the flags and the counters; the cache, the pages and the sequences' contents belong to the
// engine's thread.
class SerialEngine : public Engine {
 public:
  SerialEngine(model::Model& model, const text::Tokenizer& tokenizer, const EngineOptions& options,
               std::unique_ptr<cache::KvCache> cache, int64_t max_model_len);
  ~SerialEngine() override;

  Result<RequestId> Submit(Request request, EventSink sink) override;
  void Cancel(RequestId id) override;
  void Shutdown(int64_t grace_ms) override;
  EngineStats Stats() const override;
  int64_t max_model_len() const override { return max_model_len_; }
  int64_t vocab_size() const override { return num_tokens_; }

 private:
  Status Validate(const Request& request) const;
  void Loop();
  // Runs `sequence` to its end.
  void Run(Sequence& sequence);
  // One step: the next chunk of the prompt, or the last token. Fills logits_ when it reached the
  // sequence's end.
  Status Step(Sequence& sequence);
  void Record(const Sequence& sequence);

  model::Model& model_;
  const text::Tokenizer& tokenizer_;
  const EngineOptions options_;
  const int64_t max_model_len_;
  const int64_t
      num_tokens_;  // ids that may be drawn: the tokenizer's, without the embedding's padding rows

  std::unique_ptr<cache::KvCache> cache_;
  cache::PagePool pages_;
  std::vector<float> logits_;

  mutable std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::deque<std::shared_ptr<Sequence>> waiting_;
  std::shared_ptr<Sequence> running_;
  bool accepting_ = true;
  bool stop_ = false;
  RequestId next_id_ = 1;
  EngineStats stats_;
  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace quern::engine
