#include "bench/machine_peaks.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/machine_peaks.cc"
#include "hwy/foreach_target.h"  // compiles this file once per SIMD target
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace quern::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Sums n floats (n a multiple of 64): one load per vector.
float ReadAll(const float* p, size_t n) {
  const hn::CappedTag<float, 16> d;
  const size_t lanes = hn::Lanes(d);
  auto a = hn::Zero(d), b = hn::Zero(d);
  for (size_t i = 0; i < n; i += 2 * lanes) {
    a = hn::Add(a, hn::LoadU(d, p + i));
    b = hn::Add(b, hn::LoadU(d, p + i + lanes));
  }
  return hn::GetLane(hn::Add(a, b));
}

// Runs `rounds` rounds of ten independent chains; returns the multiply-adds done per round.
size_t MultiplyAdds(size_t rounds, float* out) {
  const hn::CappedTag<float, 16> d;
  const auto m = hn::Set(d, 0.999f);
  // Each starts elsewhere: the compiler would compute equal chains once.
  auto c0 = hn::Set(d, 0.0f), c1 = hn::Set(d, 1.0f), c2 = hn::Set(d, 2.0f), c3 = hn::Set(d, 3.0f),
       c4 = hn::Set(d, 4.0f), c5 = hn::Set(d, 5.0f), c6 = hn::Set(d, 6.0f), c7 = hn::Set(d, 7.0f),
       c8 = hn::Set(d, 8.0f), c9 = hn::Set(d, 9.0f);
  for (size_t i = 0; i < rounds; ++i) {
    c0 = hn::MulAdd(c0, m, m), c1 = hn::MulAdd(c1, m, m), c2 = hn::MulAdd(c2, m, m);
    c3 = hn::MulAdd(c3, m, m), c4 = hn::MulAdd(c4, m, m), c5 = hn::MulAdd(c5, m, m);
    c6 = hn::MulAdd(c6, m, m), c7 = hn::MulAdd(c7, m, m), c8 = hn::MulAdd(c8, m, m);
    c9 = hn::MulAdd(c9, m, m);
  }
  const auto sum = hn::Add(hn::Add(hn::Add(c0, c1), hn::Add(c2, c3)),
                           hn::Add(hn::Add(c4, c5), hn::Add(hn::Add(c6, c7), hn::Add(c8, c9))));
  *out = hn::GetLane(sum);
  return 10 * hn::Lanes(d);
}

// Runs `rounds` rounds of ten independent chains of u8 x s8 products by the instruction that the
// integer kernels use; returns the products per round, 0 where this target has no such measurement.
size_t ByteProducts(size_t rounds, float* out) {
#if HWY_TARGET == HWY_AVX3_DL
  const hn::CappedTag<int32_t, 16> d;
  auto c0 = hn::Zero(d), c1 = c0, c2 = c0, c3 = c0, c4 = c0, c5 = c0, c6 = c0, c7 = c0, c8 = c0,
       c9 = c0;
  const auto w = hn::Set(d, 0x01020304);
  // volatile: the compiler would take equal products for one.
  const auto dot = [&](auto& c) {
    __asm__ volatile("vpdpbusd %1, %1, %0" : "+v"(c.raw) : "v"(w.raw));
  };
  for (size_t i = 0; i < rounds; ++i) {
    dot(c0), dot(c1), dot(c2), dot(c3), dot(c4), dot(c5), dot(c6), dot(c7), dot(c8), dot(c9);
  }
  const auto sum = hn::Add(hn::Add(hn::Add(c0, c1), hn::Add(c2, c3)),
                           hn::Add(hn::Add(c4, c5), hn::Add(hn::Add(c6, c7), hn::Add(c8, c9))));
  *out = static_cast<float>(hn::GetLane(sum));
  return 10 * 4 * hn::Lanes(d);
#elif HWY_TARGET == HWY_AVX2
  const hn::CappedTag<int32_t, 8> d;
  const hn::Repartition<int16_t, decltype(d)> d16;
  auto c0 = hn::Zero(d), c1 = c0, c2 = c0, c3 = c0;
  const auto w = hn::Set(d, 0x01020304);
  const auto ones = hn::Set(d16, int16_t{1});
  // Four products chained in 16 bits, as codes of four bits allow. Assembly, since the compiler
  // would take equal products for one.
  const auto dot = [&](auto& c) {
    auto pairs = hn::Zero(d16);
    for (int j = 0; j < 4; ++j) {
      auto product = hn::Zero(d16);
      __asm__ volatile("vpmaddubsw %1, %1, %0" : "=x"(product.raw) : "x"(w.raw));
      pairs = hn::Add(pairs, product);
    }
    c.raw = _mm256_add_epi32(c.raw, _mm256_madd_epi16(pairs.raw, ones.raw));
  };
  for (size_t i = 0; i < rounds; ++i) dot(c0), dot(c1), dot(c2), dot(c3);
  *out = static_cast<float>(hn::GetLane(hn::Add(hn::Add(c0, c1), hn::Add(c2, c3))));
  return 4 * 4 * 4 * hn::Lanes(d);
#else
  (void)rounds, (void)out;
  return 0;
#endif
}

}  // namespace quern::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern::bench {
HWY_EXPORT(ReadAll);
HWY_EXPORT(MultiplyAdds);
HWY_EXPORT(ByteProducts);
namespace {

double BestSeconds(int passes, const std::function<void()>& pass) {
  double best = 1e30;
  for (int i = 0; i < passes; ++i) {
    const auto start = std::chrono::steady_clock::now();
    pass();
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

}  // namespace

MachinePeaks MeasurePeaks(ThreadPool& pool) {
  constexpr size_t kFloats = size_t{64} << 20;  // 256 MiB
  constexpr size_t kSlice = size_t{1} << 18;
  std::vector<float> memory(kFloats, 1.0f);
  std::vector<float> sink(static_cast<size_t>(pool.num_threads()) * 16);
  MachinePeaks peaks;
  const double read = BestSeconds(7, [&] {
    pool.ParallelFor(kFloats / kSlice, [&](int64_t i, int worker) {
      sink[static_cast<size_t>(worker) * 16] +=
          HWY_DYNAMIC_DISPATCH(ReadAll)(memory.data() + static_cast<size_t>(i) * kSlice, kSlice);
    });
  });
  peaks.read_bytes_per_s = kFloats * sizeof(float) / read;

  // The rate of a kernel that returns the products it made per round.
  using Kernel = size_t (*)(size_t rounds, float* out);
  const auto rate = [&](Kernel kernel) {
    constexpr size_t kRounds = 1 << 20;
    size_t per_round = 0;
    const double seconds = BestSeconds(15, [&] {
      pool.ParallelFor(pool.num_threads(), [&](int64_t i, int) {
        const size_t done = kernel(kRounds, &sink[static_cast<size_t>(i) * 16]);
        if (i == 0) per_round = done;
      });
    });
    return 2.0 * static_cast<double>(per_round * kRounds) * pool.num_threads() / seconds;
  };
  peaks.fma_ops_per_s =
      rate([](size_t n, float* out) { return HWY_DYNAMIC_DISPATCH(MultiplyAdds)(n, out); });
  peaks.int8_ops_per_s =
      rate([](size_t n, float* out) { return HWY_DYNAMIC_DISPATCH(ByteProducts)(n, out); });
  return peaks;
}

}  // namespace quern::bench
#endif  // HWY_ONCE
