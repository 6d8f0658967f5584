// kernels_bench: the CPU kernels at GLM-5 shapes, against the peaks of the machine they run on.
//   kernels_bench [--threads=N] [--benchmark_filter=REGEX ...]
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench/bench_case.h"
#include "quern/backend/cpu/cpu_backend.h"

namespace quern::bench {
namespace {

int num_threads = 0;
MachinePeaks peaks;

}  // namespace

backend::Backend& Cpu() {
  static const std::unique_ptr<backend::Backend> cpu = backend::CreateCpuBackend(num_threads);
  return *cpu;
}
const MachinePeaks& Peaks() { return peaks; }

DeviceTensor::DeviceTensor(Dtype dtype, std::initializer_list<int64_t> shape)
    : view_(dtype, shape, nullptr) {
  buffer_ = Cpu().Allocate(view_.bytes()).value();
  view_.data = buffer_->data();
  if (dtype == Dtype::kI32) return;
  for (int64_t i = 0; i < view_.num_elements(); ++i) {
    const float value = static_cast<float>((i * 2654435761u >> 20) % 255) / 128.0f - 1.0f;
    if (dtype == Dtype::kF32) {
      static_cast<float*>(view_.data)[i] = value;
    } else {
      uint32_t bits;
      std::memcpy(&bits, &value, 4);
      static_cast<uint16_t*>(view_.data)[i] = static_cast<uint16_t>(bits >> 16);
    }
  }
}

void SetCounters(benchmark::State& state, double bytes, double operations) {
  using benchmark::Counter;
  const auto rate = Counter::kIsIterationInvariantRate;
  state.counters["GB/s"] = Counter(bytes / 1e9, rate);
  state.counters["GOP/s"] = Counter(operations / 1e9, rate);
  state.counters["of_read_peak"] = Counter(bytes / peaks.read_bytes_per_s, rate);
  state.counters["of_fma_peak"] = Counter(operations / peaks.fma_ops_per_s, rate);
  if (peaks.int8_ops_per_s > 0)
    state.counters["of_int8_peak"] = Counter(operations / peaks.int8_ops_per_s, rate);
}

void SetTiming(benchmark::internal::Benchmark* bench) {
  bench->Unit(benchmark::kMicrosecond);
  if (Cpu().num_threads() > 1) bench->UseRealTime();
}

int Main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--threads=", 10) != 0 || std::atoi(argv[i] + 10) < 1) {
      std::fprintf(stderr,
                   "unknown argument %s; usage: kernels_bench [--threads=N] [--benchmark_...]\n",
                   argv[i]);
      return 2;
    }
    num_threads = std::atoi(argv[i] + 10);
  }
  {
    ThreadPool pool(Cpu().num_threads());
    peaks = MeasurePeaks(pool);
  }
  std::fprintf(stderr,
               "%d threads; peaks of this run: read %.1f GB/s, f32 multiply-add %.1f GOP/s, "
               "int8 %.1f GOP/s\n",
               Cpu().num_threads(), peaks.read_bytes_per_s / 1e9, peaks.fma_ops_per_s / 1e9,
               peaks.int8_ops_per_s / 1e9);
  RegisterLinear();
  RegisterAttention();
  RegisterRowOps();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace quern::bench

int main(int argc, char** argv) { return quern::bench::Main(argc, argv); }
