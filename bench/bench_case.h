// What the benchmarks share: one backend, the machine's peaks, tensors, counters.
#pragma once

#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "bench/machine_peaks.h"
#include "quern/backend/backend.h"

namespace quern::bench {

// The CPU backend under test (all cores, or --threads) and the peaks measured before the first
// benchmark; set by main.cc.
backend::Backend& Cpu();
const MachinePeaks& Peaks();

// A tensor in device memory, filled with small numbers (i32: zeros).
class DeviceTensor {
 public:
  DeviceTensor(Dtype dtype, std::initializer_list<int64_t> shape);
  operator backend::Tensor() const { return view_; }  // NOLINT: implicit by design
  const backend::Tensor& view() const { return view_; }
  int32_t* ints() const { return static_cast<int32_t*>(view_.data); }  // the CPU's memory is ours

 private:
  std::unique_ptr<backend::Buffer> buffer_;
  backend::Tensor view_;
};

// Counters of one benchmark: bytes read and operations (a multiply and an add are two) per
// iteration, as rates and as fractions of the measured peaks.
void SetCounters(benchmark::State& state, double bytes, double operations);

// Microseconds by the wall clock; with one thread by its CPU time, which other programs disturb
// less.
void SetTiming(benchmark::internal::Benchmark* bench);

void RegisterLinear();
void RegisterAttention();
void RegisterRowOps();

}  // namespace quern::bench
