// Linear at GLM-5 shapes, per stored format, compute format and number of rows.
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
    {"gate_up", 4096, 6144}, {"down", 6144, 2048}, {"dense", 6144, 6144}, {"kv_a", 576, 6144},
    {"router", 256, 6144}};
struct Format {
  const char* name;
  WeightFormat stored;
  backend::LoadAs as;
};
using backend::LoadAs;
constexpr Format kFormats[] = {{"f32", WeightFormat::kF32, LoadAs::kStored},
                               {"bf16", WeightFormat::kBf16, LoadAs::kStored},
                               {"fp8_block", WeightFormat::kFp8Block, LoadAs::kStored},
                               {"mxfp4", WeightFormat::kMxfp4, LoadAs::kStored},
                               {"nvfp4", WeightFormat::kNvfp4, LoadAs::kStored},
                               {"mxfp4_x_int8", WeightFormat::kMxfp4, LoadAs::kInt8},
                               {"int8_x_int8", WeightFormat::kBf16, LoadAs::kInt8},
                               {"bf16_as_fp8", WeightFormat::kBf16, LoadAs::kFp8}};

// Copies of one matrix, enough that a pass over all of them does not fit the caches.
std::vector<std::unique_ptr<LinearWeights>> LoadCopies(const Format& how, const Shape& shape) {
  const WeightFormat format = how.stored;
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
    copies.push_back(Cpu().LoadLinear(std::span(&m, 1), how.as).value());
    bytes += copies.back()->bytes();
  } while (bytes < kTotalBytes && static_cast<int64_t>(copies.size()) < kMaxCopies);
  return copies;
}

void BenchLinear(benchmark::State& state, const Format& how, const Shape& shape, int64_t rows) {
  const auto copies = LoadCopies(how, shape);
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
    for (const Format& how : kFormats) {
      for (int64_t rows : {1, 2, 4, 8, 16, 64, 512}) {
        const std::string name = std::string("Linear/") + shape.name + "/" + how.name +
                                 "/rows:" + std::to_string(rows);
        SetTiming(benchmark::RegisterBenchmark(
            name.c_str(), [&how, &shape, rows](benchmark::State& state) {
              BenchLinear(state, how, shape, rows);
            }));
      }
    }
  }
}

}  // namespace quern::bench
