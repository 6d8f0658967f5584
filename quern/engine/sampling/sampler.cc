#include "quern/engine/sampling/sampler.h"

#include <algorithm>
#include <cmath>

#include "quern/base/hash.h"
#include "quern/engine/sampling/filters.h"

namespace quern::engine {
double UniformDraw(uint64_t seed, int64_t position) {
  const uint64_t bits = SplitMix64(SplitMix64(seed) ^ static_cast<uint64_t>(position));
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

Sampler::Sampler(const SamplingParams& params, std::span<const int32_t> prompt, int64_t num_tokens)
    : params_(params),
      num_tokens_(num_tokens),
      counts_(static_cast<size_t>(num_tokens)),
      in_prompt_(static_cast<size_t>(num_tokens)) {
  for (int32_t token : prompt) {
    if (token < num_tokens) in_prompt_[static_cast<size_t>(token)] = true;
  }
}

void Sampler::Penalize(std::span<float> logits) const {
  const bool additive = params_.presence_penalty != 0.0f || params_.frequency_penalty != 0.0f;
  if (!additive && params_.repetition_penalty == 1.0f) return;
  for (size_t i = 0; i < counts_.size(); ++i) {
    const bool generated = counts_[i] > 0;
    if (params_.repetition_penalty != 1.0f &&
        (generated || in_prompt_[i])) {  // CTRL, arXiv 1909.05858
      logits[i] = logits[i] > 0 ? logits[i] / params_.repetition_penalty
                                : logits[i] * params_.repetition_penalty;
    }
    if (generated) {
      logits[i] -=
          params_.presence_penalty + params_.frequency_penalty * static_cast<float>(counts_[i]);
    }
  }
}

Result<int32_t> Sampler::Sample(std::span<float> logits, int64_t position) {
  QUERN_ASSIGN(const int32_t token, Draw(logits, position));
  ++counts_[static_cast<size_t>(token)];
  return token;
}

Result<int32_t> Sampler::Draw(std::span<float> logits, int64_t position) const {
  logits = logits.first(static_cast<size_t>(num_tokens_));
  Penalize(logits);
  for (const auto& [token, bias] : params_.logit_bias) logits[static_cast<size_t>(token)] += bias;

  int32_t token = -1;
  if (params_.temperature == 0.0f) {
    for (size_t i = 0; i < logits.size(); ++i) {
      if (std::isfinite(logits[i]) &&
          (token < 0 || logits[i] > logits[static_cast<size_t>(token)])) {
        token = static_cast<int32_t>(i);
      }
    }
  } else {
    // Inverse CDF over the kept tokens in id order.
    std::vector<Candidate> kept = FilterCandidates(logits, params_);
    std::sort(kept.begin(), kept.end(),
              [](const auto& a, const auto& b) { return a.token < b.token; });
    double total = 0;
    for (const Candidate& c : kept) total += c.weight;
    double left = UniformDraw(params_.seed, position) * total;
    for (const Candidate& c : kept) {
      if (c.weight <= 0) continue;
      token = c.token;  // the last one also takes what rounding leaves
      if ((left -= c.weight) < 0) break;
    }
  }
  if (token < 0) {
    return Internal("no finite logit at position {}: the weights or the activations overflowed",
                    position);
  }
  return token;
}

Logprobs ComputeLogprobs(std::span<const float> logits, int64_t num_tokens, int32_t token,
                         int32_t num_top) {
  logits = logits.first(static_cast<size_t>(num_tokens));
  double largest = -INFINITY, sum = 0;
  for (float l : logits) largest = std::max(largest, static_cast<double>(l));
  for (float l : logits) sum += std::exp(static_cast<double>(l) - largest);
  const double log_total = largest + std::log(sum);
  const auto logprob = [&](int32_t id) {
    return TokenLogprob{
        id, static_cast<float>(static_cast<double>(logits[static_cast<size_t>(id)]) - log_total)};
  };
  Logprobs result;
  result.token = logprob(token);
  std::vector<int32_t> ids(logits.size());
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
  const size_t n = std::min(ids.size(), static_cast<size_t>(std::max(num_top, 0)));
  std::partial_sort(
      ids.begin(), ids.begin() + static_cast<ptrdiff_t>(n), ids.end(), [&](int32_t a, int32_t b) {
        const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
        return x != y ? x > y : a < b;
      });
  for (size_t i = 0; i < n; ++i) result.top.push_back(logprob(ids[i]));
  return result;
}

}  // namespace quern::engine
