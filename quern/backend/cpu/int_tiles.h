// Activations for integer products: quantized once per op, in the order the kernels read them.
//
// Rows are cut into tiles of nearly equal height, at most MaxTileRows(): what one kernel call keeps
// in registers. Per group of 32 k a tile of R rows holds
//   codes    [8][R][4] s8: element j holds k = 4 j .. 4 j + 3 of each row
//   scales   [R] f32
//   offsets  [2][R] i32: -12 and -128 times the sum of the row's codes, which the accumulators
//            start from, to take back the offset of unsigned weight codes
#pragma once

#include <cstdint>
#include <vector>

#include "quern/backend/tensor.h"

namespace quern::backend::cpu {

inline constexpr int64_t TileGroupBytes(int64_t rows) { return rows * (32 + 4 + 8); }

// How many rows a tile may have on this machine's best SIMD target.
int64_t MaxTileRows();

struct IntTile {
  int64_t first_row = 0;  // of x
  int64_t rows = 0;
  int64_t offset = 0;  // of its bytes in the buffer that holds all tiles
};

// Appends tiles for x rows [first, first + rows) of `groups` groups; `bytes` is the size of the
// buffer so far, and grows.
void AppendTiles(int64_t first, int64_t rows, int64_t groups, std::vector<IntTile>& tiles,
                 int64_t& bytes);

// Quantizes groups [first_group, + num_groups) of a tile's rows of x [rows, k] (f32 or bf16), as
// numerics/int8_group.h says, into `out`, the tile's first byte. k past the end is zero.
void QuantizeTile(const Tensor& x, const IntTile& tile, int64_t first_group, int64_t num_groups,
                  uint8_t* out);

}  // namespace quern::backend::cpu
