// MlaAttention and IndexSelect at GLM-5 head shapes.
#include <string>

#include "bench/bench_case.h"

namespace quern::bench {
namespace {

using backend::BatchView;
using backend::kPageTokens;

// `tokens` rows of one sequence, the last of a context of `context` positions.
struct Context {
  Context(int64_t tokens, int64_t context)
      : pages((context + kPageTokens - 1) / kPageTokens),
        positions(Dtype::kI32, {tokens}),
        sequences(Dtype::kI32, {tokens}),
        page_tables(Dtype::kI32, {1, pages}) {
    for (int64_t p = 0; p < pages; ++p) page_tables.ints()[p] = static_cast<int32_t>(pages - 1 - p);
    for (int64_t t = 0; t < tokens; ++t)
      positions.ints()[t] = static_cast<int32_t>(context - tokens + t);
  }
  BatchView view() const { return {positions, sequences, page_tables}; }
  int64_t pages;
  DeviceTensor positions, sequences, page_tables;
};

void BenchAttention(benchmark::State& state, int64_t tokens, int64_t keys) {
  constexpr int64_t kHeads = 64, kRank = 512, kWidth = 576;
  const Context context(tokens, keys);
  const DeviceTensor q(Dtype::kF32, {tokens, kHeads, kWidth}),
      y(Dtype::kF32, {tokens, kHeads, kRank});
  const DeviceTensor cache(Dtype::kBf16, {context.pages, kPageTokens, kWidth});
  for (auto _ : state) {
    const Status s = Cpu().MlaAttention({q, cache, 0.06f, context.view(), nullptr, y});
    if (!s.ok()) return state.SkipWithError(s.message().c_str());
  }
  const auto pairs = static_cast<double>(tokens * keys);
  SetCounters(state, pairs * kWidth * 2, pairs * kHeads * 2 * (kWidth + kRank));
}

void BenchIndexSelect(benchmark::State& state, int64_t tokens, int64_t keys) {
  constexpr int64_t kHeads = 32, kDim = 128, kTopK = 2048;
  const Context context(tokens, keys);
  const DeviceTensor q(Dtype::kF32, {tokens, kHeads, kDim}), weights(Dtype::kF32, {tokens, kHeads});
  const DeviceTensor cache(Dtype::kBf16, {context.pages, kPageTokens, kDim});
  const DeviceTensor positions(Dtype::kI32, {tokens, kTopK}), counts(Dtype::kI32, {tokens});
  for (auto _ : state) {
    const Status s =
        Cpu().IndexSelect({q, weights, 0.1f, cache, context.view(), {positions, counts}});
    if (!s.ok()) return state.SkipWithError(s.message().c_str());
  }
  const auto pairs = static_cast<double>(tokens * keys);
  SetCounters(state, pairs * kDim * 2, pairs * kHeads * 2 * (kDim + 1));
}

using Body = void (*)(benchmark::State&, int64_t, int64_t);
void Register(const char* op, Body body, int64_t tokens, int64_t keys) {
  const std::string name =
      std::string(op) + "/tokens:" + std::to_string(tokens) + "/keys:" + std::to_string(keys);
  SetTiming(benchmark::RegisterBenchmark(
      name.c_str(), [=](benchmark::State& state) { body(state, tokens, keys); }));
}

}  // namespace

void RegisterAttention() {
  for (int64_t tokens : {1, 16}) {
    for (int64_t keys : {128, 2048}) Register("MlaAttention", BenchAttention, tokens, keys);
    for (int64_t keys : {4096, 32768}) Register("IndexSelect", BenchIndexSelect, tokens, keys);
  }
}

}  // namespace quern::bench
