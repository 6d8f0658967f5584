// What the op tests share: tensors with guard bytes, stored matrices at odd addresses, and a loop
// over every CPU configuration that must give the reference's bits.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "hwy/targets.h"
#include "quern/backend/backend.h"
#include "quern/backend/cpu/cpu_backend.h"
#include "quern/backend/host/host_memory.h"
#include "quern/backend/ref/ref_backend.h"

namespace quern::backend {

using Rng = std::mt19937;

inline float Normal(Rng& rng, float scale = 1.0f) {
  return std::normal_distribution<float>(0.0f, scale)(rng);
}
inline int64_t Uniform(Rng& rng, int64_t low, int64_t high) {  // both ends included
  return std::uniform_int_distribution<int64_t>(low, high)(rng);
}

// A tensor and its memory. Rows of the last dimension are `pad` elements apart, and so are all
// outer dimensions; the gaps hold a pattern that no op may touch.
class TestTensor {
 public:
  TestTensor() = default;
  TestTensor(Dtype dtype, std::initializer_list<int64_t> shape, int64_t pad = 0)
      : view_(dtype, shape, nullptr) {
    int64_t stride = 1;
    for (int i = view_.rank - 1; i >= 0; --i) {
      view_.strides[static_cast<size_t>(i)] = stride;
      stride = stride * view_.dim(i) + pad;
    }
    memory_.assign(static_cast<size_t>(stride * DtypeBytes(dtype)) + 64, std::byte{0xA5});
  }

  // Copies share nothing, so `data` is set on use.
  Tensor view() {
    Tensor t = view_;
    t.data = memory_.data();
    return t;
  }
  operator Tensor() { return view(); }  // NOLINT: implicit by design

  int64_t size() const { return view_.num_elements(); }
  const std::vector<std::byte>& memory() const { return memory_; }
  float Get(int64_t i) const { return host::LoadF32(view_.dtype, memory_.data(), Offset(i)); }
  void Set(int64_t i, float v) { host::StoreF32(view_.dtype, memory_.data(), Offset(i), v); }
  int32_t& Int(int64_t i) { return reinterpret_cast<int32_t*>(memory_.data())[Offset(i)]; }

  TestTensor& Fill(Rng& rng, float scale = 1.0f) {
    for (int64_t i = 0; i < size(); ++i) Set(i, Normal(rng, scale));
    return *this;
  }
  TestTensor& Ints(const std::vector<int32_t>& values) {
    for (size_t i = 0; i < values.size(); ++i) Int(static_cast<int64_t>(i)) = values[i];
    return *this;
  }
  std::vector<float> Floats() const {
    std::vector<float> out;
    for (int64_t i = 0; i < size(); ++i) out.push_back(Get(i));
    return out;
  }
  std::vector<int32_t> Ints() {
    std::vector<int32_t> out;
    for (int64_t i = 0; i < size(); ++i) out.push_back(Int(i));
    return out;
  }

 private:
  int64_t Offset(int64_t i) const {
    int64_t offset = 0;
    for (int d = view_.rank - 1; d >= 0; --d) {
      offset += i % view_.dim(d) * view_.stride(d);
      i /= view_.dim(d);
    }
    return offset;
  }

  Tensor view_;
  std::vector<std::byte> memory_;
};

// Equal to the bit, gaps included; any NaN equals any NaN.
inline ::testing::AssertionResult SameBits(const TestTensor& got, const TestTensor& want) {
  if (got.memory() == want.memory()) return ::testing::AssertionSuccess();
  int64_t different = 0, first = -1;
  for (int64_t i = 0; i < got.size(); ++i) {
    const float a = got.Get(i), b = want.Get(i);
    if (std::memcmp(&a, &b, sizeof(a)) == 0 || (a != a && b != b)) continue;
    if (different++ == 0) first = i;
  }
  if (different == 0) {
    TestTensor copy = got;  // equal but for NaNs? then the gaps must be equal too
    for (int64_t i = 0; i < got.size(); ++i) copy.Set(i, want.Get(i));
    TestTensor other = want;
    for (int64_t i = 0; i < got.size(); ++i) other.Set(i, want.Get(i));
    if (copy.memory() == other.memory()) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "bytes outside the view were written";
  }
  return ::testing::AssertionFailure()
         << different << " of " << got.size() << " elements differ, first at " << first << ": got "
         << got.Get(first) << ", want " << want.Get(first);
}

inline bool SameFloatBits(float a, float b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

inline Backend& Ref() {
  static const std::unique_ptr<Backend> backend = CreateRefBackend();
  return *backend;
}
inline Backend& Cpu(int threads) {
  static const std::unique_ptr<Backend> backends[] = {CreateCpuBackend(1), CreateCpuBackend(2),
                                                      CreateCpuBackend(3)};
  return *backends[threads - 1];
}

// Calls f(backend) for every SIMD target of this machine with one and three threads, and for the
// best target with two. The reference result is computed once outside, since it is the slow part.
template <typename F>
void ForEachCpu(const F& f) {
  const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  for (size_t i = 0; i < targets.size(); ++i) {
    // And those below it: not every kernel has a version of its own for each.
    int64_t mask = 0;
    for (size_t j = i; j < targets.size(); ++j) mask |= targets[j];
    hwy::SetSupportedTargetsForTest(mask);
    for (int threads = 1; threads <= 3; ++threads) {
      if (threads == 2 && i != 0) continue;
      SCOPED_TRACE(std::string(hwy::TargetName(targets[i])) + ", " + std::to_string(threads) +
                   " threads");
      f(Cpu(threads));
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

// A checkpoint's bytes for one matrix: rows apart by an odd number of bytes, from an odd address.
struct StoredCase {
  std::vector<std::byte> data, scales;
  StoredMatrix matrix;
};

struct StoredOptions {
  int64_t block_rows = 128, block_cols = 128;
  bool nan_codes = false;  // E4M3 codes 0x7F and 0xFF, E8M0 code 255
};

StoredCase MakeStored(WeightFormat format, int64_t rows, int64_t cols, Rng& rng,
                      const StoredOptions& options = {});

inline constexpr WeightFormat kAllFormats[] = {WeightFormat::kF32,        WeightFormat::kF16,
                                               WeightFormat::kBf16,       WeightFormat::kFp8Block,
                                               WeightFormat::kFp8Channel, WeightFormat::kFp8Tensor,
                                               WeightFormat::kMxfp4,      WeightFormat::kNvfp4};

// Columns a format can hold: FP4 scale groups are whole.
inline int64_t RoundCols(WeightFormat format, int64_t cols) {
  const int64_t group = format == WeightFormat::kMxfp4   ? 32
                        : format == WeightFormat::kNvfp4 ? 16
                                                         : 1;
  return (cols + group - 1) / group * group;
}

}  // namespace quern::backend
