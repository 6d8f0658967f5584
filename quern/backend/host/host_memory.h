// Memory and element access for backends whose device memory is host memory (ref, cpu).
#pragma once

#include <cstring>
#include <memory>

#include "quern/backend/backend.h"
#include "quern/numerics/bf16.h"

namespace quern::backend::host {

// Zeroed, 64-byte aligned.
Result<std::unique_ptr<Buffer>> AllocateHost(int64_t bytes);
Status CopyToDeviceHost(const void* host, const Tensor& dst);
Status CopyToHostHost(const Tensor& src, void* host);

// Row pointers and element access; `index` counts elements from the row's start.
template <typename T>
T* RowPtr(const Tensor& t, int64_t i) {
  return static_cast<T*>(t.data) + i * t.stride(0);
}
template <typename T>
T* RowPtr(const Tensor& t, int64_t i, int64_t j) {
  return static_cast<T*>(t.data) + i * t.stride(0) + j * t.stride(1);
}
inline float LoadF32(Dtype dtype, const void* row, int64_t index) {
  return dtype == Dtype::kF32 ? static_cast<const float*>(row)[index]
                              : Bf16ToF32(static_cast<const uint16_t*>(row)[index]);
}
inline void StoreF32(Dtype dtype, void* row, int64_t index, float value) {
  if (dtype == Dtype::kF32) {
    static_cast<float*>(row)[index] = value;
  } else {
    static_cast<uint16_t*>(row)[index] = F32ToBf16(value);
  }
}
// The value after a store and a load.
inline float RoundTo(Dtype dtype, float value) {
  return dtype == Dtype::kF32 ? value : Bf16ToF32(F32ToBf16(value));
}
inline void* RowVoid(const Tensor& t, int64_t i) {
  return static_cast<char*>(t.data) + i * t.stride(0) * DtypeBytes(t.dtype);
}
inline void* RowVoid(const Tensor& t, int64_t i, int64_t j) {
  return static_cast<char*>(t.data) + (i * t.stride(0) + j * t.stride(1)) * DtypeBytes(t.dtype);
}
inline int32_t I32(const Tensor& t, int64_t i) {
  return static_cast<const int32_t*>(t.data)[i * t.stride(0)];
}
inline int32_t& I32(const Tensor& t, int64_t i, int64_t j) {
  return static_cast<int32_t*>(t.data)[i * t.stride(0) + j];
}

// The cache row of position `p` of row t's sequence. Row stride of a pool is its last dimension.
inline void* CacheRow(const Tensor& pool, const BatchView& batch, int64_t t, int64_t p) {
  const int64_t page = I32(batch.page_tables, I32(batch.sequences, t), p / kPageTokens);
  QUERN_DCHECK(page >= 0 && page < pool.dim(0), "page {} of {}", page, pool.dim(0));
  return RowVoid(pool, page, p % kPageTokens);
}

}  // namespace quern::backend::host
