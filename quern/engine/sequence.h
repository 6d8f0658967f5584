// One token timeline of a request: its tokens, pages, sampler and text.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "quern/cache/prefix_tree.h"
#include "quern/engine/drafting/draft_controller.h"
#include "quern/engine/engine.h"
#include "quern/engine/sampling/sampler.h"
#include "quern/text/detokenizer.h"

namespace quern::engine {

using Clock = std::chrono::steady_clock;

// Owned by the engine; only `cancelled` is touched by other threads.
class Sequence {
 public:
  Sequence(RequestId id, Request request, EventSink sink, const text::Tokenizer& tokenizer,
           int64_t num_tokens);

  RequestId id() const { return id_; }
  const Request& request() const { return request_; }
  // Prompt, then generated tokens.
  const std::vector<int32_t>& tokens() const { return tokens_; }
  int64_t len() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t prompt_len() const { return prompt_len_; }
  // Most tokens it may come to hold.
  int64_t max_len() const { return prompt_len_ + request_.max_tokens; }
  bool finished() const { return finished_; }

  // Draws the next token from `logits` [vocab] (changed in place), tells the sink, and finishes the
  // sequence on a stop token, a stop string or the length limit. `forced`, if not negative, is
  // taken instead of a draw (simulated acceptance).
  void Advance(std::span<float> logits, int32_t forced = -1);
  // What Advance would draw from `logits` for `position`; tells nobody. -1 when no logit is finite.
  int32_t Draft(std::span<float> logits, int64_t position) const;
  // Sends the last event. Once only.
  void Finish(FinishReason reason, const std::string& error = "");

  FinishReason finish_reason() const { return finish_reason_; }
  int64_t num_generated() const { return num_generated_; }

  std::atomic<bool> cancelled{false};

  // Where it stands in line: smaller first. Arrival, moved by the request's priority.
  double order = 0;
  Clock::time_point submitted;
  double queue_seconds = -1;  // until its first step; -1: still waiting

  // The cache. Position p is in pages[p / 64]; the first num_shared pages belong to the prefix tree
  // up to `node`, which is locked; the others are the sequence's own.
  std::vector<int32_t> pages;
  int64_t num_shared = 0;
  cache::PrefixTree::Node* node = nullptr;
  int64_t num_computed = 0;    // positions whose keys are in the cache
  int64_t num_draft_keys = 0;  // positions whose keys of the MTP layer are, while it drafts
  int64_t num_cached = -1;     // prompt tokens found in the cache at the first start

  std::vector<int32_t> drafts;  // guesses for the tokens after tokens(), to be verified
  DraftRecord draft_record;
  bool simulated = false;  // drafts were accepted unseen, for a benchmark
  bool drafting = false;   // the MTP layer follows it; once false, it stays so

 private:
  const RequestId id_;
  const Request request_;
  const EventSink sink_;
  std::vector<int32_t> tokens_;
  const int64_t prompt_len_;
  const int64_t num_tokens_;
  Sampler sampler_;
  text::Detokenizer detokenizer_;
  text::StopStrings stop_strings_;
  int64_t num_generated_ = 0;
  bool finished_ = false;
  FinishReason finish_reason_ = FinishReason::kNone;
};

}  // namespace quern::engine
