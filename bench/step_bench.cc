// Whole forward passes of a random GLM-5-shaped model with MXFP4 experts: decode steps of one
// sequence and of several, and prefill chunks.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "quern/backend/cpu/cpu_backend.h"
#include "quern/model/model.h"
#include "quern/testing/checkpoint_writer.h"
#include "quern/testing/model_runner.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPagesEach = 40;  // 2560 positions a sequence
constexpr int64_t kMaxSequences = 8;

// Written and loaded once, kept for all benchmarks of the run.
struct Loaded {
  std::unique_ptr<backend::Backend> backend = backend::CreateCpuBackend();
  std::unique_ptr<model::Model> model;
  std::unique_ptr<testing::ModelRunner> runner;

  Loaded() {
    const fs::path directory = fs::temp_directory_path() / "quern-step-bench";
    testing::CheckpointSpec spec;
    spec.config = testing::PresetConfig("mid-dsa").value();
    spec.layout = testing::LayoutFromName("quark-mxfp4").value();
    const Status written = testing::WriteCheckpoint(directory.string(), spec);
    QUERN_CHECK(written.ok(), "{}", written.ToString());
    std::vector<std::string> warnings;
    model = model::LoadModel(directory.string(), *backend, {}, warnings).value();
    fs::remove_all(directory);
    runner = std::make_unique<testing::ModelRunner>(*model, kMaxSequences * kPagesEach);
  }
};

Loaded& Shared() {
  static Loaded loaded;
  return loaded;
}

// `sequences` sequences, each `rows` tokens from `position` on, in one step.
void BM_Step(benchmark::State& state) {
  const int64_t sequences = state.range(0), rows = state.range(1), position = state.range(2);
  Loaded& loaded = Shared();
  const int64_t vocab = loaded.model->config().vocab_size;
  std::vector<std::vector<int32_t>> tokens;
  std::vector<testing::ModelRunner::Rows> batch;
  for (int64_t i = 0; i < sequences; ++i) {
    tokens.push_back(testing::MakeTokens(rows, vocab, static_cast<uint64_t>(i)));
  }
  for (const auto& sequence : tokens) batch.push_back({sequence, position});
  for (auto _ : state) benchmark::DoNotOptimize(loaded.runner->Step(batch, kPagesEach));
  state.counters["tok/s"] = benchmark::Counter(static_cast<double>(sequences * rows),
                                               benchmark::Counter::kIsIterationInvariantRate);
  state.counters["weights_MB"] = static_cast<double>(loaded.model->weight_bytes()) / 1e6;
  state.counters["threads"] = loaded.backend->num_threads();
}
BENCHMARK(BM_Step)
    ->ArgNames({"sequences", "rows", "position"})
    ->Args({1, 1, 100})
    ->Args({1, 1, 2400})
    ->Args({4, 1, 2400})
    ->Args({8, 1, 2400})
    ->Args({1, 128, 0})
    ->Args({1, 128, 2400})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace quern
