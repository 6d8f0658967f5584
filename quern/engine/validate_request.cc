#include <cmath>

#include "quern/engine/batch_engine.h"

namespace quern::engine {
namespace {

Status ValidateSampling(const SamplingParams& s, int64_t num_tokens) {
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
    if (token < 0 || token >= num_tokens || std::isnan(bias)) {
      return InvalidArgument(
          "logit_bias: token id {} with bias {}; ids below {} and numbers wanted", token, bias,
          num_tokens);
    }
  }
  return OkStatus();
}

}  // namespace

Status ValidateRequest(const Request& r, int64_t num_tokens, int64_t max_model_len) {
  if (r.prompt.empty()) return InvalidArgument("prompt: it has no tokens; give at least one");
  for (int32_t token : r.prompt) {
    if (token < 0 || token >= num_tokens) {
      return InvalidArgument("prompt: token id {} is outside the vocabulary of {}", token,
                             num_tokens);
    }
  }
  if (r.max_tokens < 1)
    return InvalidArgument("max_tokens: {} given, at least 1 wanted", r.max_tokens);
  const int64_t prompt_len = static_cast<int64_t>(r.prompt.size());
  if (prompt_len + r.max_tokens > max_model_len) {
    return InvalidArgument(
        "prompt {} + max_tokens {} = {} tokens, over the limit of {}; shorten either", prompt_len,
        r.max_tokens, prompt_len + r.max_tokens, max_model_len);
  }
  return ValidateSampling(r.sampling, num_tokens);
}

}  // namespace quern::engine
