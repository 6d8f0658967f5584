// Results to y. Included once per SIMD target.
#if defined(QUERN_BACKEND_CPU_STORE_ROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUERN_BACKEND_CPU_STORE_ROW_INL_H_
#undef QUERN_BACKEND_CPU_STORE_ROW_INL_H_
#else
#define QUERN_BACKEND_CPU_STORE_ROW_INL_H_
#endif

#include "quern/backend/cpu/simd-inl.h"
#include "quern/numerics/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace quern::backend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Stores n floats of one y row.
HWY_INLINE void StoreRow(const float* c, int64_t n, Dtype type, void* y) {
  const DF d;
  int64_t i = 0;
  if (type == Dtype::kF32) {
    float* out = static_cast<float*>(y);
    for (; i + static_cast<int64_t>(kLanes) <= n; i += kLanes)
      hn::StoreU(hn::LoadU(d, c + i), d, out + i);
    for (; i < n; ++i) out[i] = c[i];
    return;
  }
  uint16_t* out = static_cast<uint16_t*>(y);
  for (; i + static_cast<int64_t>(kLanes) <= n; i += kLanes)
    StoreBf16(hn::LoadU(d, c + i), out + i);
  if (i < n) {
    HWY_ALIGN float tail[16] = {};
    uint16_t bits[16] = {};
    for (int64_t j = i; j < n; ++j) tail[j - i] = c[j];
    StoreBf16(hn::Load(d, tail), bits);
    for (int64_t j = i; j < n; ++j) out[j] = bits[j - i];
  }
}

}  // namespace quern::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
