// A weight matrix as a checkpoint stores it, and its exact meaning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace quern {

// How a matrix's numbers are stored. One row in kWeightFormats (stored_matrix.cc) each.
enum class WeightFormat : uint8_t {
  kF32,
  kF16,
  kBf16,
  kFp8Block,    // E4M3, one f32 scale per block_rows x block_cols block (edge blocks are smaller)
  kFp8Channel,  // E4M3, one f32 scale per row
  kFp8Tensor,   // E4M3, one f32 scale
  kMxfp4,       // E2M1 pairs, one E8M0 scale per 32 along a row
  kNvfp4,       // E2M1 pairs, one E4M3 scale per 16 along a row, one f32 scale for all
};

// "bf16", "fp8_block", "mxfp4" ...: the word `quern inspect` prints.
std::string_view WeightFormatName(WeightFormat format);

// A view of [rows, cols] weights, y = x W^T. Owns nothing; the bytes outlive it and need no
// alignment.
struct StoredMatrix {
  WeightFormat format = WeightFormat::kBf16;
  int64_t rows = 0;  // output features
  int64_t cols = 0;  // input features, logical (a packed FP4 row holds cols / 2 bytes)
  const std::byte* data = nullptr;
  int64_t row_bytes =
      0;  // distance between rows of `data`: more than a row's bytes when rows interleave
  // Scales: f32 [ceil(rows / block_rows), ceil(cols / block_cols)] for kFp8Block, f32 [rows] for
  // kFp8Channel, f32 [1] for kFp8Tensor, E8M0 [rows, cols / 32] for kMxfp4, E4M3 [rows, cols / 16]
  // for kNvfp4.
  const std::byte* scales = nullptr;
  int64_t scale_row_bytes = 0;             // distance between rows of `scales`; 0 for kFp8Tensor
  int64_t block_rows = 0, block_cols = 0;  // kFp8Block only
  float global_scale = 1.0f;               // kNvfp4: a multiplier, whatever the dialect stores
};

// Bytes of one row of codes, without padding between rows.
int64_t PackedRowBytes(WeightFormat format, int64_t cols);

// Weights that share a scale along a row: 32, 16, block_cols, or cols where the row has one scale
// (or none).
int64_t ScaleGroup(const StoredMatrix& m);

// The scale that multiplies element (row, col); 1 for unscaled formats. For kNvfp4 the product of
// both scales, rounded once to f32.
float ScaleAt(const StoredMatrix& m, int64_t row, int64_t col);

// Writes row `row` as f32 [cols]: code value times ScaleAt, rounded once to f32 (exact but for FP8
// and NVFP4 scales with long mantissas). This is the definition that every kernel of the format is
// tested against.
void DecodeRow(const StoredMatrix& m, int64_t row, float* out);

}  // namespace quern
