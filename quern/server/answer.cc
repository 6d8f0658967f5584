#include "quern/server/answer.h"

#include <algorithm>
#include <ctime>
#include <limits>

namespace quern::server {

AnswerHead MakeAnswerHead(const Services& services, const char* id_prefix) {
  AnswerHead head;
  head.id = RandomId(id_prefix);
  head.created = static_cast<int64_t>(std::time(nullptr));
  head.model = services.model_name();
  head.system_fingerprint = services.system_fingerprint();
  return head;
}

void UsageCounter::Add(int choice, const engine::TokenEvent& last) {
  completion_tokens_ += last.num_completion_tokens;
  drafted_ += last.num_drafted;
  simulated_ = simulated_ || last.simulated;
  accepted_ += last.num_accepted;
  if (choice % choices_per_prompt_ != 0) return;
  prompt_tokens_ += last.num_prompt_tokens;
  cached_tokens_ += last.num_cached_tokens;
}

Json UsageCounter::ToJson() const {
  Json usage = {{"prompt_tokens", prompt_tokens_},
                {"completion_tokens", completion_tokens_},
                {"total_tokens", prompt_tokens_ + completion_tokens_},
                {"prompt_tokens_details", {{"cached_tokens", cached_tokens_}}}};
  if (drafted_ > 0) {  // OpenAI's names for predicted tokens
    usage["completion_tokens_details"] = {{"accepted_prediction_tokens", accepted_},
                                          {"rejected_prediction_tokens", drafted_ - accepted_}};
  }
  if (simulated_) usage["simulated_acceptance"] = true;
  return usage;
}

ApiResult<int32_t> ChooseMaxTokens(const Services& services, const SamplingFields& fields,
                                   int64_t prompt_len, std::optional<int32_t> fallback,
                                   const std::string& prompt_param) {
  const int64_t limit = services.model.max_model_len;
  const int64_t room = limit - prompt_len;
  if (room < 1)
    return ContextTooLong(prompt_len, fields.max_tokens.value_or(0), limit, prompt_param);
  if (fields.max_tokens && *fields.max_tokens > room) {
    return ContextTooLong(prompt_len, *fields.max_tokens, limit, fields.max_tokens_name);
  }
  int64_t tokens = fields.max_tokens.value_or(fallback ? std::min<int64_t>(*fallback, room) : room);
  return static_cast<int32_t>(std::min<int64_t>(tokens, std::numeric_limits<int32_t>::max()));
}

std::optional<ApiError> CheckLogitBias(const Services& services,
                                       const engine::SamplingParams& sampling) {
  if (sampling.logit_bias.empty()) return std::nullopt;
  const int64_t highest = sampling.logit_bias.rbegin()->first;  // keys are sorted and not negative
  if (highest < services.engine.vocab_size()) return std::nullopt;
  return BadField("logit_bias",
                  fmt::format("logit_bias: token {} does not exist; ids are below {}", highest,
                              services.engine.vocab_size()),
                  "out_of_range");
}

}  // namespace quern::server
