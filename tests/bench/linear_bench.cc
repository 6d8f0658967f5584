// Matrix products on the CPU backend: every stored format, from one row (decode) to many (prefill).
// GB/s counts the weights as the backend holds them, once per product.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "quern/backend/cpu/cpu_backend.h"
#include "quern/numerics/stored_matrix.h"
#include "quern/testing/encode_weights.h"
#include "quern/testing/random_weights.h"

namespace quern {
namespace {

struct Format {
  const char* name;
  testing::Encoding encoding;
  WeightFormat format;
};
constexpr Format kFormats[] = {
    {"f32", testing::Encoding::kF32, WeightFormat::kF32},
    {"bf16", testing::Encoding::kBf16, WeightFormat::kBf16},
    {"fp8_block", testing::Encoding::kFp8Block, WeightFormat::kFp8Block},
    {"mxfp4", testing::Encoding::kMxfp4, WeightFormat::kMxfp4},
};

// The smaller products of GLM-5.2's experts and attention; larger ones behave alike.
struct Shape {
  int64_t rows, cols;
};
constexpr Shape kShapes[] = {{2048, 6144}, {6144, 2048}};

// Bytes and scales of a random [rows, cols] matrix, and the view a backend loads.
struct Stored {
  std::vector<std::string> parts;
  StoredMatrix view;
};

Stored MakeStored(const Format& format, Shape shape) {
  std::vector<float> values(static_cast<size_t>(shape.rows * shape.cols));
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.02f * testing::NormalAt(1, i);
  Stored stored;
  stored.parts = testing::EncodeWeights(format.encoding, values, shape.rows, shape.cols);
  StoredMatrix& view = stored.view;
  view.format = format.format;
  view.rows = shape.rows;
  view.cols = shape.cols;
  view.data = reinterpret_cast<const std::byte*>(stored.parts[0].data());
  view.row_bytes = PackedRowBytes(format.format, shape.cols);
  if (stored.parts.size() > 1) {
    view.scales = reinterpret_cast<const std::byte*>(stored.parts[1].data());
    const bool block = format.format == WeightFormat::kFp8Block;
    if (block) view.block_rows = view.block_cols = testing::kFp8BlockSize;
    const int64_t scale_rows = block ? (shape.rows + 127) / 128 : shape.rows;
    view.scale_row_bytes = static_cast<int64_t>(stored.parts[1].size()) / scale_rows;
  }
  return stored;
}

void BM_Linear(benchmark::State& state, const Format& format, Shape shape, int64_t tokens) {
  const std::unique_ptr<backend::Backend> cpu = backend::CreateCpuBackend();
  std::unique_ptr<backend::LinearWeights> weights;
  {
    const Stored stored = MakeStored(format, shape);
    auto loaded = cpu->LoadLinear({&stored.view, 1});
    if (!loaded.ok()) return state.SkipWithError(loaded.status().message().c_str());
    weights = std::move(loaded).value();
  }
  const Dtype dtype = format.format == WeightFormat::kF32 ? Dtype::kF32 : Dtype::kBf16;
  auto x_memory = cpu->Allocate(tokens * shape.cols * DtypeBytes(dtype));
  auto y_memory = cpu->Allocate(tokens * shape.rows * DtypeBytes(dtype));
  if (!x_memory.ok() || !y_memory.ok()) return state.SkipWithError("out of memory");
  const backend::Tensor x(dtype, {tokens, shape.cols}, (*x_memory)->data());
  const backend::Tensor y(dtype, {tokens, shape.rows}, (*y_memory)->data());
  for (auto _ : state) {
    const Status status = cpu->Linear({.x = x, .w = *weights, .y = y});
    if (!status.ok()) return state.SkipWithError(status.message().c_str());
  }
  const double flops = 2.0 * static_cast<double>(tokens * shape.rows * shape.cols);
  const auto rate = benchmark::Counter::kIsIterationInvariantRate;
  state.counters["GFLOP/s"] = benchmark::Counter(flops / 1e9, rate);
  state.counters["GB/s"] = benchmark::Counter(static_cast<double>(weights->bytes()) / 1e9, rate);
  state.counters["threads"] = cpu->num_threads();
}

const bool kRegistered = [] {
  for (const Format& format : kFormats) {
    for (const Shape shape : kShapes) {
      for (const int64_t tokens : {1, 8, 64, 256}) {
        const std::string name =
            fmt::format("linear/{}/{}x{}/tokens:{}", format.name, shape.rows, shape.cols, tokens);
        benchmark::RegisterBenchmark(name.c_str(), BM_Linear, format, shape, tokens)
            ->UseRealTime()
            ->Unit(benchmark::kMicrosecond);
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace quern
