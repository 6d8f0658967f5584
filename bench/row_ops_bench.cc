// The small ops around the products, at 1 row (decode) and 512 (a prefill chunk).
#include <functional>
#include <string>

#include "bench/bench_case.h"

namespace quern::bench {
namespace {

constexpr int64_t kHidden = 6144, kExperts = 256, kSlots = 8, kInter = 2048;

void Run(benchmark::State& state, double bytes, const std::function<Status()>& op) {
  for (auto _ : state) {
    const Status s = op();
    if (!s.ok()) return state.SkipWithError(s.message().c_str());
  }
  SetCounters(state, bytes, 0);
}

void BenchRmsNorm(benchmark::State& state, int64_t rows) {
  const DeviceTensor x(Dtype::kBf16, {rows, kHidden}), y(Dtype::kBf16, {rows, kHidden});
  const DeviceTensor weight(Dtype::kF32, {kHidden});
  Run(state, static_cast<double>(rows * kHidden * 4), [&] {
    return Cpu().RmsNorm({x, weight, 1e-5f, y});
  });
}

void BenchSwiGlu(benchmark::State& state, int64_t rows) {
  const DeviceTensor x(Dtype::kBf16, {rows, 2 * kInter}), y(Dtype::kBf16, {rows, kInter});
  Run(state, static_cast<double>(rows * kInter * 6), [&] { return Cpu().SwiGlu({x, y}); });
}

void BenchRope(benchmark::State& state, int64_t rows) {
  const DeviceTensor positions(Dtype::kI32, {rows}), table(Dtype::kF32, {rows, 2, 32});
  const DeviceTensor x(Dtype::kBf16, {rows, 64, 64}), y(Dtype::kF32, {rows, 64, 64});
  Run(state, static_cast<double>(rows * 64 * 64 * 6), [&] {
    return Cpu().Rope({x, table, true, y});
  });
}

void BenchRopeTable(benchmark::State& state, int64_t rows) {
  const DeviceTensor positions(Dtype::kI32, {rows}), table(Dtype::kF32, {rows, 2, 32});
  for (int64_t t = 0; t < rows; ++t) positions.ints()[t] = static_cast<int32_t>(t * 97);
  Run(state, static_cast<double>(rows * 64 * 4), [&] {
    return Cpu().RopeTable({positions, 8e6, 64, table});
  });
}

// Route, gather and combine: all of an MoE layer but its products.
void BenchRouting(benchmark::State& state, int64_t rows) {
  const DeviceTensor logits(Dtype::kF32, {rows, kExperts}), bias(Dtype::kF32, {kExperts});
  const DeviceTensor experts(Dtype::kI32, {rows, kSlots}), weights(Dtype::kF32, {rows, kSlots});
  const DeviceTensor offsets(Dtype::kI32, {kExperts + 1}), tokens(Dtype::kI32, {rows * kSlots});
  const DeviceTensor row_of(Dtype::kI32, {rows, kSlots});
  const DeviceTensor x(Dtype::kBf16, {rows, kHidden}),
      sorted(Dtype::kBf16, {rows * kSlots, kHidden});
  const backend::Routes routes = {experts, weights, offsets, tokens, row_of};
  Run(state, static_cast<double>(rows * kHidden * 2 * (2 * kSlots + kSlots + 1)), [&] {
    QUERN_TRY(Cpu().Route({logits, bias, true, 2.5f, routes}));
    QUERN_TRY(Cpu().GatherRows({x, tokens, sorted}));
    return Cpu().Combine({sorted, routes, x});
  });
}

using Body = void (*)(benchmark::State&, int64_t);
void Register(const char* op, Body body) {
  for (int64_t rows : {1, 512}) {
    const std::string name = std::string(op) + "/rows:" + std::to_string(rows);
    SetTiming(benchmark::RegisterBenchmark(name.c_str(),
                                           [=](benchmark::State& state) { body(state, rows); }));
  }
}

}  // namespace

void RegisterRowOps() {
  Register("RmsNorm", BenchRmsNorm);
  Register("SwiGlu", BenchSwiGlu);
  Register("Rope", BenchRope);
  Register("RopeTable", BenchRopeTable);
  Register("Routing", BenchRouting);
}

}  // namespace quern::bench
