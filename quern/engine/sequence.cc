#include "quern/engine/sequence.h"

#include <algorithm>

namespace quern::engine {

Sequence::Sequence(RequestId id, Request request, EventSink sink, const text::Tokenizer& tokenizer,
                   int64_t num_tokens)
    : id_(id),
      request_(std::move(request)),
      sink_(std::move(sink)),
      tokens_(request_.prompt),
      prompt_len_(static_cast<int64_t>(request_.prompt.size())),
      num_tokens_(num_tokens),
      sampler_(request_.sampling, request_.prompt, num_tokens),
      detokenizer_(tokenizer, request_.skip_special_tokens),
      stop_strings_(request_.stop_strings) {}

void Sequence::Advance(std::span<float> logits, int32_t forced) {
  TokenEvent event;
  const bool wants_logprobs = request_.num_top_logprobs >= 0;
  // Logprobs speak of the model's own distribution, so they are read before the chain changes the
  // logits.
  std::vector<float> original;
  if (wants_logprobs) original.assign(logits.begin(), logits.end());

  const Result<int32_t> drawn = sampler_.Sample(logits, len());
  if (!drawn.ok()) return Finish(FinishReason::kError, drawn.status().message());
  const int32_t token = forced < 0 ? *drawn : forced;
  tokens_.push_back(token);
  ++num_generated_;

  const auto& stops = request_.stop_token_ids;
  if (!request_.ignore_eos && std::find(stops.begin(), stops.end(), token) != stops.end()) {
    return Finish(FinishReason::kStop);
  }
  event.has_token = true;
  event.token = token;
  if (wants_logprobs) {
    Logprobs logprobs = ComputeLogprobs(original, num_tokens_, token, request_.num_top_logprobs);
    event.logprob = logprobs.token;
    event.top_logprobs = std::move(logprobs.top);
  }
  event.text = stop_strings_.Push(detokenizer_.Push(token));
  sink_(event);
  if (stop_strings_.stopped()) return Finish(FinishReason::kStop);
  if (num_generated_ >= request_.max_tokens) Finish(FinishReason::kLength);
}

int32_t Sequence::Draft(std::span<float> logits, int64_t position) const {
  const Result<int32_t> drawn = sampler_.Draw(logits, position);
  return drawn.ok() ? *drawn : -1;
}

void Sequence::Finish(FinishReason reason, const std::string& error) {
  QUERN_CHECK(!finished_, "request {} finished twice", id_);
  TokenEvent event;
  event.error_message = error;
  if (!stop_strings_.stopped()) {
    event.text = stop_strings_.Push(detokenizer_.Flush());
    event.text += stop_strings_.Flush();
    // What the detokenizer still held may complete a stop string.
    if (stop_strings_.stopped() && reason == FinishReason::kLength) reason = FinishReason::kStop;
  }
  if (stop_strings_.stopped()) event.stop_string = stop_strings_.matched();
  finished_ = true;
  finish_reason_ = reason;
  event.finish = reason;
  event.num_prompt_tokens = static_cast<int32_t>(prompt_len_);
  event.num_cached_tokens = static_cast<int32_t>(std::max<int64_t>(num_cached, 0));
  event.num_completion_tokens = static_cast<int32_t>(num_generated_);
  event.num_drafted = static_cast<int32_t>(draft_record.drafted);
  event.num_accepted = static_cast<int32_t>(draft_record.accepted);
  event.simulated = simulated;
  event.queue_seconds = std::max(queue_seconds, 0.0);
  sink_(event);
}

}  // namespace quern::engine
