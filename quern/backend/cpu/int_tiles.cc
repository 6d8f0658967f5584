#include "quern/backend/cpu/int_tiles.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "quern/backend/host/host_memory.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quern/backend/cpu/int_tiles.cc"
#include "hwy/foreach_target.h"  // compiles this file once per SIMD target
#include "hwy/highway.h"
#include "quern/backend/cpu/int_dot-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quern::backend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

int64_t TileRowsOfTarget() { return kIntTileRows; }

// One group of one row: 32 values to codes. Returns the scale and puts the codes' sum in `sum`.
HWY_INLINE float QuantizeGroup(const float* values, int8_t* codes, int32_t* sum) {
  const DF d;
  const DI di;
  const hn::Rebind<int8_t, DF> d8;
  const auto magnitude = hn::Set(di, 0x7FFFFFFF);
  auto largest = hn::Zero(di);  // of the bits: as numbers, NaN above infinity above all others
  for (size_t i = 0; i < 32; i += kLanes) {
    largest = hn::Max(largest, hn::And(hn::BitCast(di, hn::LoadU(d, values + i)), magnitude));
  }
  const int32_t bits = hn::GetLane(hn::MaxOfLanes(di, largest));
  *sum = 0;
  float scale = std::bit_cast<float>(bits) / 127.0f;
  if (bits >= 0x7F800000 || scale == 0.0f) {
    std::memset(codes, 0, 32);
    return bits >= 0x7F800000 ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
  }
  const auto divisor = hn::Set(d, scale);
  auto total = hn::Zero(di);
  for (size_t i = 0; i < 32; i += kLanes) {
    const auto code = hn::Round(hn::Div(hn::LoadU(d, values + i), divisor));
    const auto clamped = hn::Min(hn::Max(code, hn::Set(d, -127.0f)), hn::Set(d, 127.0f));
    const auto ints = hn::ConvertTo(di, clamped);
    total = hn::Add(total, ints);
    hn::StoreU(hn::DemoteTo(d8, ints), d8, codes + i);
  }
  *sum = hn::GetLane(hn::SumOfLanes(di, total));
  return scale;
}

// 32 values of a row from element k on, zeros past its end.
HWY_INLINE void LoadGroup(const Tensor& x, int64_t row, int64_t k, float* out) {
  const DF d;
  const int64_t count = HWY_MIN(int64_t{32}, x.dim(1) - k);
  const void* p = host::RowVoid(x, row);
  if (count < 32) {
    for (int64_t i = 0; i < 32; ++i) out[i] = i < count ? host::LoadF32(x.dtype, p, k + i) : 0.0f;
    return;
  }
  for (size_t i = 0; i < 32; i += kLanes) {
    const int64_t at = k + static_cast<int64_t>(i);
    hn::StoreU(x.dtype == Dtype::kF32 ? hn::LoadU(d, static_cast<const float*>(p) + at)
                                      : LoadBf16(static_cast<const uint16_t*>(p) + at),
               d, out + i);
  }
}

void Quantize(const Tensor& x, const IntTile& tile, int64_t first_group, int64_t num_groups,
              uint8_t* out) {
  HWY_ALIGN float values[32];
  HWY_ALIGN int8_t codes[32];
  const int64_t rows = tile.rows;
  for (int64_t g = first_group; g < first_group + num_groups; ++g) {
    uint8_t* group = out + g * TileGroupBytes(rows);
    auto* scales = reinterpret_cast<float*>(group + rows * 32);
    auto* offsets = reinterpret_cast<int32_t*>(group + rows * 36);
    for (int64_t m = 0; m < rows; ++m) {
      LoadGroup(x, tile.first_row + m, g * 32, values);
      int32_t sum = 0;
      scales[m] = QuantizeGroup(values, codes, &sum);
      offsets[m] = -12 * sum;
      offsets[rows + m] = -128 * sum;
      for (int64_t j = 0; j < 8; ++j) std::memcpy(group + (j * rows + m) * 4, codes + j * 4, 4);
    }
  }
}

}  // namespace quern::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern::backend::cpu {
HWY_EXPORT(TileRowsOfTarget);
HWY_EXPORT(Quantize);

int64_t MaxTileRows() { return HWY_DYNAMIC_DISPATCH(TileRowsOfTarget)(); }

void AppendTiles(int64_t first, int64_t rows, int64_t groups, std::vector<IntTile>& tiles,
                 int64_t& bytes) {
  const int64_t most = MaxTileRows();
  for (int64_t left = rows; left > 0;) {
    const int64_t count = (left + most - 1) / most, n = (left + count - 1) / count;
    tiles.push_back({first + rows - left, n, bytes});
    bytes += groups * TileGroupBytes(n);
    left -= n;
  }
}

void QuantizeTile(const Tensor& x, const IntTile& tile, int64_t first_group, int64_t num_groups,
                  uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(Quantize)(x, tile, first_group, num_groups, out);
}
}  // namespace quern::backend::cpu
#endif  // HWY_ONCE
