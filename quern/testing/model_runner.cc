#include "quern/testing/model_runner.h"

#include <algorithm>

#include "quern/backend/backend.h"

namespace quern::testing {
namespace {
constexpr int64_t kPage = backend::kPageTokens;
}

ModelRunner::ModelRunner(model::Model& model, int64_t num_pages) : model_(model) {
  auto created =
      cache::KvCache::Create(model.backend(), model::MakeKvLayout(model.config()), num_pages);
  QUERN_CHECK(created.ok(), "{}", created.status().ToString());
  cache_ = std::move(created).value();
}

std::vector<float> ModelRunner::Step(std::span<const Rows> sequences, int64_t pages_each) {
  model::StepBatch batch;
  batch.max_pages = pages_each;
  const int64_t total = cache_->num_pages();
  QUERN_CHECK(static_cast<int64_t>(sequences.size()) * pages_each <= total);
  for (size_t s = 0; s < sequences.size(); ++s) {
    for (size_t i = 0; i < sequences[s].tokens.size(); ++i) {
      batch.logit_rows.push_back(static_cast<int32_t>(batch.tokens.size()));
      batch.tokens.push_back(sequences[s].tokens[i]);
      batch.positions.push_back(
          static_cast<int32_t>(sequences[s].first_position + static_cast<int64_t>(i)));
      batch.sequences.push_back(static_cast<int32_t>(s));
    }
    for (int64_t p = 0; p < pages_each; ++p) {
      batch.page_tables.push_back(
          static_cast<int32_t>(total - 1 - static_cast<int64_t>(s) * pages_each - p));
    }
  }
  std::vector<float> logits;
  const Status status = model_.Forward(batch, cache_->view(), logits);
  QUERN_CHECK(status.ok(), "{}", status.ToString());
  return logits;
}

std::vector<float> ModelRunner::Run(std::span<const int32_t> tokens, int64_t chunk) {
  std::vector<float> all;
  for (size_t begin = 0; begin < tokens.size(); begin += static_cast<size_t>(chunk)) {
    const size_t count = std::min(static_cast<size_t>(chunk), tokens.size() - begin);
    const Rows rows{tokens.subspan(begin, count), static_cast<int64_t>(begin)};
    const std::vector<float> logits = Step({&rows, 1}, cache_->num_pages());
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

std::vector<std::vector<float>> ModelRunner::RunTogether(
    const std::vector<std::vector<int32_t>>& sequences) {
  std::vector<Rows> rows;
  size_t longest = 1;
  for (const auto& tokens : sequences) {
    rows.push_back({tokens, 0});
    longest = std::max(longest, tokens.size());
  }
  const std::vector<float> logits = Step(rows, (static_cast<int64_t>(longest) + kPage - 1) / kPage);
  std::vector<std::vector<float>> parts;
  const size_t vocab = static_cast<size_t>(model_.config().vocab_size);
  size_t at = 0;
  for (const auto& tokens : sequences) {
    const size_t count = tokens.size() * vocab;
    parts.emplace_back(logits.begin() + static_cast<ptrdiff_t>(at),
                       logits.begin() + static_cast<ptrdiff_t>(at + count));
    at += count;
  }
  return parts;
}

std::vector<int32_t> ModelRunner::Greedy(std::span<const int32_t> prompt, int64_t count) {
  std::vector<int32_t> tokens(prompt.begin(), prompt.end()), generated;
  size_t computed = 0;
  while (static_cast<int64_t>(generated.size()) < count) {
    const Rows rows{std::span<const int32_t>(tokens).subspan(computed),
                    static_cast<int64_t>(computed)};
    const std::vector<float> logits = Step({&rows, 1}, cache_->num_pages());
    const auto last = logits.end() - model_.config().vocab_size;
    computed = tokens.size();
    generated.push_back(static_cast<int32_t>(std::max_element(last, logits.end()) - last));
    tokens.push_back(generated.back());
  }
  return generated;
}

std::vector<int32_t> MakeTokens(int64_t count, int64_t vocab, uint64_t seed) {
  std::vector<int32_t> tokens;
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    tokens.push_back(static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(vocab)));
  }
  return tokens;
}

}  // namespace quern::testing
