// The engine: requests in, streams of token events out, cancel. See README.md here for the
// contract.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "quern/base/status.h"
#include "quern/engine/request.h"
#include "quern/model/model.h"

namespace quern::text {
class Tokenizer;
}

namespace quern::engine {

using RequestId = uint64_t;

inline constexpr int kMaxDrafts = 16;

enum class DraftMode { kOff, kFixed, kAuto };

// Speculative decoding with the checkpoint's MTP layer, where it has one.
struct DraftOptions {
  DraftMode mode = DraftMode::kAuto;  // kAuto: as many as pay, up to num_drafts
  int32_t num_drafts = 5;             // 1 .. kMaxDrafts
  // For benchmarks only: accept drafts so that rounds give this many tokens on average, right or
  // wrong. 0 = off. Answers are nonsense then, and say so (TokenEvent::simulated).
  double simulated_accept_length = 0;
};

struct EngineOptions {
  int64_t max_model_len = 0;   // prompt + completion, in tokens; 0 = what the model and cache allow
  int64_t kv_cache_bytes = 0;  // 0 = a share of free memory, at most what max_model_len needs
  int32_t prefill_chunk = 512;  // most prompt tokens per step
  int32_t max_running = 256;    // requests that are computed together
  int32_t max_queued = 1024;    // Submit beyond it is kResourceExhausted
  model::KvDtype kv_dtype = model::KvDtype::kAuto;
  bool prefix_cache = true;  // requests with the same beginning share its keys
  // Where cached prefixes are kept over a restart; empty = nowhere.
  std::string cache_dir;
  int64_t cache_dir_bytes = int64_t{16} << 30;
  DraftOptions draft;
};

// Counters since start; a snapshot.
struct EngineStats {
  int64_t num_running = 0, num_waiting = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
  int64_t requests_finished_stop = 0, requests_finished_length = 0, requests_cancelled = 0,
          requests_failed = 0;
  // Used by requests; kept for later ones; all there are.
  int64_t kv_pages_used = 0, kv_pages_cached = 0, kv_pages_total = 0;
  int64_t pages_evicted = 0, preemptions = 0;
  int64_t pages_restored = 0;                   // from disk
  int64_t prefix_queries = 0, prefix_hits = 0;  // prompt tokens looked up in the cache, and found
  std::array<int64_t, kMaxDrafts> drafted{}, accepted{};  // by position behind the last token
  int64_t steps = 0;
  double schedule_seconds = 0, model_seconds = 0, sample_seconds = 0, draft_seconds = 0;
  int64_t bytes_read = 0;  // by the model and its drafts, see Backend::bytes_read
};

// Thread-safe: any thread may submit and cancel. The model is used by the engine's own thread only.
class Engine {
 public:
  virtual ~Engine() = default;

  // Queues a request; `sink` gets its events. kInvalidArgument names the field of a request that
  // can never run (empty prompt, token id out of range, prompt + max_tokens over max_model_len
  // ...); kResourceExhausted when the queue is full; kUnavailable after Shutdown.
  virtual Result<RequestId> Submit(Request request, EventSink sink) = 0;
  // The request stops within one step and its last event says kCancelled. Unknown or finished ids
  // are ignored.
  virtual void Cancel(RequestId id) = 0;

  // Refuses new requests, cancels those still running after `grace_ms`, returns when all have
  // ended. Idempotent.
  virtual void Shutdown(int64_t grace_ms) = 0;

  virtual EngineStats Stats() const = 0;
  virtual int64_t max_model_len() const = 0;
  virtual int64_t vocab_size() const = 0;
};

// Starts the engine's thread. `model` and `tokenizer` must outlive it.
Result<std::unique_ptr<Engine>> CreateEngine(model::Model& model, const text::Tokenizer& tokenizer,
                                             const EngineOptions& options);

}  // namespace quern::engine
