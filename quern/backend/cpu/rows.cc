#include "quern/backend/cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quern/backend/cpu/rows.cc"
#include "hwy/foreach_target.h"  // compiles this file once per SIMD target
#include "hwy/highway.h"
#include "quern/backend/cpu/simd-inl.h"
#include "quern/backend/host/host_memory.h"

HWY_BEFORE_NAMESPACE();
namespace quern::backend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One vector of `type` at element i, and back. Rounding to bf16 happens in the store.
HWY_INLINE VF LoadAs(Dtype type, const void* p, int64_t i) {
  return type == Dtype::kF32 ? hn::LoadU(DF(), static_cast<const float*>(p) + i)
                             : LoadBf16(static_cast<const uint16_t*>(p) + i);
}
HWY_INLINE void StoreAs(VF v, Dtype type, void* p, int64_t i) {
  if (type == Dtype::kF32) {
    hn::StoreU(v, DF(), static_cast<float*>(p) + i);
  } else {
    StoreBf16(v, static_cast<uint16_t*>(p) + i);
  }
}
HWY_INLINE VF RoundAs(VF v, Dtype type) {
  const DU du;
  return type == Dtype::kF32
             ? v
             : hn::BitCast(DF(), hn::ShiftLeft<16>(hn::And(Bf16Bits(v), hn::Set(du, 0xFFFFu))));
}

// Runs body(i) on whole vectors, and tail(i) on the elements left over.
template <class Body, class Tail>
HWY_INLINE void ForEach(int64_t n, const Body& body, const Tail& tail) {
  int64_t i = 0;
  for (; i + static_cast<int64_t>(kLanes) <= n; i += kLanes) body(i);
  for (; i < n; ++i) tail(i);
}

void ToF32(Dtype type, const void* src, int64_t n, float* out) {
  ForEach(
      n, [&](int64_t i) { hn::StoreU(LoadAs(type, src, i), DF(), out + i); },
      [&](int64_t i) { out[i] = host::LoadF32(type, src, i); });
}

void RmsNorm(Dtype x_type, const void* x, const float* weight, float eps, int64_t n, Dtype y_type,
             void* y, float* f) {
  const DF d;
  ToF32(x_type, x, n, f);
  VF acc[kVecs];
  for (size_t v = 0; v < kVecs; ++v) acc[v] = hn::Zero(d);
  int64_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) {
    for (size_t v = 0; v < kVecs; ++v) {
      const VF e = hn::LoadU(d, f + i + v * kLanes);
      acc[v] = Fma(e, e, acc[v]);
    }
  }
  HWY_ALIGN float lanes[kSumLanes];
  for (size_t v = 0; v < kVecs; ++v) hn::Store(acc[v], d, lanes + v * kLanes);
  for (; i < n; ++i) lanes[i % kSumLanes] = std::fma(f[i], f[i], lanes[i % kSumLanes]);
  const float r = 1.0f / std::sqrt(ReduceLanes(lanes) / static_cast<float>(n) + eps);
  ForEach(
      n,
      [&](int64_t k) {
        const VF normed = RoundAs(hn::Mul(hn::LoadU(d, f + k), hn::Set(d, r)), y_type);
        StoreAs(hn::Mul(normed, hn::LoadU(d, weight + k)), y_type, y, k);
      },
      [&](int64_t k) {
        host::StoreF32(y_type, y, k, host::RoundTo(y_type, f[k] * r) * weight[k]);
      });
}

void Add(Dtype x_type, const void* x, int64_t n, Dtype y_type, void* y) {
  ForEach(
      n,
      [&](int64_t i) {
        StoreAs(hn::Add(LoadAs(y_type, y, i), LoadAs(x_type, x, i)), y_type, y, i);
      },
      [&](int64_t i) {
        host::StoreF32(y_type, y, i, host::LoadF32(y_type, y, i) + host::LoadF32(x_type, x, i));
      });
}

void SwiGlu(Dtype type, const void* gate_up, int64_t n, void* y) {
  const DF d;
  ForEach(
      n,
      [&](int64_t i) {
        const VF gate = LoadAs(type, gate_up, i);
        const VF silu = hn::Div(gate, hn::Add(hn::Set(d, 1.0f), ExpVec(hn::Neg(gate))));
        StoreAs(hn::Mul(RoundAs(silu, type), LoadAs(type, gate_up, n + i)), type, y, i);
      },
      [&](int64_t i) {
        const float act = host::RoundTo(type, Silu(host::LoadF32(type, gate_up, i)));
        host::StoreF32(type, y, i, act * host::LoadF32(type, gate_up, n + i));
      });
}

void Accumulate(Dtype type, const void* row, float weight, int64_t n, float* acc) {
  const DF d;
  ForEach(
      n,
      [&](int64_t i) {
        hn::StoreU(
            hn::Add(hn::LoadU(d, acc + i), hn::Mul(hn::Set(d, weight), LoadAs(type, row, i))), d,
            acc + i);
      },
      [&](int64_t i) { acc[i] += weight * host::LoadF32(type, row, i); });
}

void Store(const float* acc, int64_t n, Dtype type, void* y) {
  ForEach(
      n, [&](int64_t i) { StoreAs(hn::LoadU(DF(), acc + i), type, y, i); },
      [&](int64_t i) { host::StoreF32(type, y, i, acc[i]); });
}

}  // namespace quern::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern::backend::cpu {
HWY_EXPORT(ToF32);
HWY_EXPORT(RmsNorm);
HWY_EXPORT(Add);
HWY_EXPORT(SwiGlu);
HWY_EXPORT(Accumulate);
HWY_EXPORT(Store);

void RowToF32(Dtype type, const void* src, int64_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(ToF32)(type, src, n, out);
}
void RmsNormRow(Dtype x_type, const void* x, const float* weight, float eps, int64_t n,
                Dtype y_type, void* y, float* scratch) {
  HWY_DYNAMIC_DISPATCH(RmsNorm)(x_type, x, weight, eps, n, y_type, y, scratch);
}
void AddRow(Dtype x_type, const void* x, int64_t n, Dtype y_type, void* y) {
  HWY_DYNAMIC_DISPATCH(Add)(x_type, x, n, y_type, y);
}
void SwiGluRow(Dtype type, const void* gate_up, int64_t n, void* y) {
  HWY_DYNAMIC_DISPATCH(SwiGlu)(type, gate_up, n, y);
}
void AccumulateRow(Dtype type, const void* row, float weight, int64_t n, float* acc) {
  HWY_DYNAMIC_DISPATCH(Accumulate)(type, row, weight, n, acc);
}
void StoreRowAs(const float* acc, int64_t n, Dtype type, void* y) {
  HWY_DYNAMIC_DISPATCH(Store)(acc, n, type, y);
}
}  // namespace quern::backend::cpu
#endif  // HWY_ONCE
