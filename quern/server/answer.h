// A generation request made ready for the engine, and the interface that turns the engine's events
// into an answer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "quern/engine/request.h"
#include "quern/server/errors.h"
#include "quern/server/sampling_fields.h"
#include "quern/server/services.h"

namespace quern::server {

// Builds one endpoint's answer from token events. Not thread-safe.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  // The next event of one choice; never one that ends in kError or kCancelled.
  virtual void Add(int choice, const engine::TokenEvent& event) = 0;
  // Streaming: the SSE text of what was added since the last call. Else empty.
  virtual std::string Take() = 0;
  // After the last event of every choice. Streaming: the usage chunk, if asked for, and [DONE].
  // Else the JSON body.
  virtual std::string Finish() = 0;
  // "stop", "length" or "tool_calls" once the choice has ended.
  virtual std::string finish_reason(int choice) const = 0;
};

struct PreparedAnswer {
  std::string id;  // "chatcmpl-..."
  bool stream = false;
  std::vector<engine::Request> requests;  // one per choice
  std::unique_ptr<AnswerWriter> writer;
};

// Reads a body, renders, tokenizes. Slow for large prompts: call it off the I/O threads.
using PrepareAnswer = ApiResult<PreparedAnswer> (*)(Services& services, std::string_view body);

// Fields every answer or chunk carries.
struct AnswerHead {
  std::string id;
  int64_t created = 0;  // Unix seconds
  std::string model;
  std::string system_fingerprint;
};
AnswerHead MakeAnswerHead(const Services& services, const char* id_prefix);

// Token counts of a whole answer: each prompt counted once, whatever n.
class UsageCounter {
 public:
  explicit UsageCounter(int choices_per_prompt) : choices_per_prompt_(choices_per_prompt) {}
  void Add(int choice, const engine::TokenEvent& last);
  Json ToJson() const;

 private:
  int choices_per_prompt_;
  int64_t prompt_tokens_ = 0, cached_tokens_ = 0, completion_tokens_ = 0;
  int64_t drafted_ = 0, accepted_ = 0;
  bool simulated_ = false;
};

// The tokens an answer of this prompt may have: what was asked for, else `fallback`, else what
// fits. An error when it does not fit.
ApiResult<int32_t> ChooseMaxTokens(const Services& services, const SamplingFields& fields,
                                   int64_t prompt_len, std::optional<int32_t> fallback,
                                   const std::string& prompt_param);
// An error when a logit_bias names a token the model does not have.
std::optional<ApiError> CheckLogitBias(const Services& services,
                                       const engine::SamplingParams& sampling);

}  // namespace quern::server
