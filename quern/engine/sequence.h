// One token timeline of a request: its tokens, pages, sampler and text.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "quern/engine/engine.h"
#include "quern/engine/sampling/sampler.h"
#include "quern/text/detokenizer.h"

namespace quern::engine {

// Owned by the engine; only `cancelled` is touched by other threads.
class Sequence {
 public:
  Sequence(RequestId id, Request request, EventSink sink, const text::Tokenizer& tokenizer,
           int64_t num_tokens);

  RequestId id() const { return id_; }
  // Prompt, then generated tokens.
  const std::vector<int32_t>& tokens() const { return tokens_; }
  int64_t prompt_len() const { return prompt_len_; }
  // Most tokens it may come to hold.
  int64_t max_len() const { return prompt_len_ + request_.max_tokens; }
  bool finished() const { return finished_; }

  // Draws the next token from `logits` [vocab] (changed in place), tells the sink, and finishes the
  // sequence on a stop token, a stop string or the length limit.
  void Advance(std::span<float> logits);
  // Sends the last event. Once only.
  void Finish(FinishReason reason, const std::string& error = "");

  FinishReason finish_reason() const { return finish_reason_; }
  int64_t num_generated() const { return num_generated_; }

  std::atomic<bool> cancelled{false};
  std::vector<int32_t> pages;  // position p is in pages[p / 64]
  int64_t num_computed = 0;    // tokens whose keys are in the cache

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
