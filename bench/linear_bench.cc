// Linear at GLM-5 shapes, per stored format and number of rows.
#include <map>
#include <string>

#include "bench/bench_case.h"

namespace quern::bench {
namespace {

using backend::LinearWeights;

struct Shape {
  const char* name;
  int64_t n, k;
};
constexpr Shape kShapes[] = {
    {"gate_up", 4096, 6144}, {"down", 6144, 2048}, {"kv_a", 576, 6144}, {"router", 256, 6144}};
constexpr WeightFormat kFormats[] = {WeightFormat::kF32, WeightFormat::kBf16,
                                     WeightFormat::kFp8Block, WeightFormat::kMxfp4,
                                     WeightFormat::kNvfp4};

// Copies of one matrix, enough that a pass over all of them does not fit the caches.
std::vector<std::unique_ptr<LinearWeights>> LoadCopies(WeightFormat format, const Shape& shape) {
  StoredMatrix m;
  m.format = format, m.rows = shape.n, m.cols = shape.k;
  m.row_bytes = PackedRowBytes(format, shape.k);
  std::vector<std::byte> codes(static_cast<size_t>(m.rows * m.row_bytes));
  for (size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<std::byte>((i * 37 + i / 251) % 119);
  m.data = codes.data();
  m.block_rows = m.block_cols = 128;
  std::vector<std::byte> scales(static_cast<size_t>(m.rows * m.cols / 16 + 64), std::byte{0x38});
  m.scales = scales.data();
  m.scale_row_bytes = format == WeightFormat::kFp8Block ? (m.cols / 128) * 4
                      : format == WeightFormat::kMxfp4  ? m.cols / 32
                                                        : m.cols / 16;
  if (format == WeightFormat::kF32 || format == WeightFormat::kBf16) m.scales = nullptr;
  constexpr int64_t kTotalBytes = 160 << 20, kMaxCopies = 16;
  std::vector<std::unique_ptr<LinearWeights>> copies;
  int64_t bytes = 0;
  do {
    copies.push_back(Cpu().LoadLinear(std::span(&m, 1)).value());
    bytes += copies.back()->bytes();
  } while (bytes < kTotalBytes && static_cast<int64_t>(copies.size()) < kMaxCopies);
  return copies;
}

void BenchLinear(benchmark::State& state, WeightFormat format, const Shape& shape, int64_t rows) {
  const auto copies = LoadCopies(format, shape);
  const DeviceTensor x(Dtype::kBf16, {rows, shape.k}), y(Dtype::kBf16, {rows, shape.n});
  size_t next = 0;
  for (auto _ : state) {
    const Status s = Cpu().Linear({x, *copies[next], y});
    if (!s.ok()) return state.SkipWithError(s.message().c_str());
    next = (next + 1) % copies.size();
  }
  SetCounters(state, static_cast<double>(copies[0]->bytes()),
              2.0 * static_cast<double>(rows * shape.n * shape.k));
}

}  // namespace

void RegisterLinear() {
  for (const Shape& shape : kShapes) {
    for (WeightFormat format : kFormats) {
      for (int64_t rows : {1, 2, 4, 16, 64, 512}) {
        const std::string name = std::string("Linear/") + shape.name + "/" +
                                 std::string(WeightFormatName(format)) +
                                 "/rows:" + std::to_string(rows);
        SetTiming(benchmark::RegisterBenchmark(name.c_str(), [=, &shape](benchmark::State& state) {
          BenchLinear(state, format, shape, rows);
        }));
      }
    }
  }
}

}  // namespace quern::bench
