// E4M3 made at load from wider weights: one f32 scale per 128 weights along a row.
#pragma once

#include <cstdint>

namespace quern {

inline constexpr int64_t kFp8Group = 128;

// A row [cols] in groups of 128 (the last may be shorter): scale = max |values| / 448, code =
// E4M3(values / scale), both rounded once; scales [ceil(cols / 128)]. A group of zeros has scale 0;
// one with a value that is not finite has scale NaN.
void EncodeFp8Row(const float* values, int64_t cols, uint8_t* codes, float* scales);
// code * scale, rounded once to f32.
void DecodeFp8Row(const uint8_t* codes, const float* scales, int64_t cols, float* out);

}  // namespace quern
