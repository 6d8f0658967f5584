// f32 matrices to the bytes a checkpoint stores, one function for all formats. Plain loops: this
// makes fixtures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quern::testing {

enum class Encoding {
  kF32,
  kF16,
  kBf16,
  kFp8Block,         // codes; f32 scales per 128 x 128 block
  kFp8Channel,       // codes; one f32 scale per row
  kFp8Tensor,        // codes; one f32 scale
  kMxfp4,            // nibble pairs; E8M0 per 32, Quark's "even" rule
  kNvfp4Multiplier,  // nibble pairs; E4M3 per 16; one f32 that multiplies; one f32 for activations
  kNvfp4Divisor,     // nibble pairs; E4M3 per 16; one f32 that divides; one f32 for activations
};

inline constexpr int64_t kFp8BlockSize = 128;

// The byte strings that store `values` [rows, cols], in the order listed beside the encoding: codes
// first, then scales. Wants cols % 32 == 0 for MXFP4 and cols % 16 == 0 for NVFP4.
std::vector<std::string> EncodeWeights(Encoding encoding, const std::vector<float>& values,
                                       int64_t rows, int64_t cols);

}  // namespace quern::testing
