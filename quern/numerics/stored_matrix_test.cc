#include "quern/numerics/stored_matrix.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "quern/numerics/e4m3.h"

namespace quern {
namespace {

constexpr long double kE2M1[8] = {0.0L, 0.5L, 1.0L, 1.5L, 2.0L, 3.0L, 4.0L, 6.0L};

template <typename T>
const std::byte* Bytes(const std::vector<T>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

// E4M3 from its definition; NaN codes are the caller's business.
long double E4M3(int code) {
  const int exponent = (code >> 3) & 15, mantissa = code & 7;
  const long double magnitude = exponent == 0 ? std::ldexp(mantissa / 8.0L, -6)
                                              : std::ldexp(1.0L + mantissa / 8.0L, exponent - 7);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

std::vector<float> Decode(const StoredMatrix& m, int64_t row) {
  std::vector<float> out(static_cast<size_t>(m.cols));
  DecodeRow(m, row, out.data());
  return out;
}

// 5 x 3 in each unscaled format, at an odd address: file bytes are not aligned.
TEST(StoredMatrix, UnscaledFormatsDecodeAtAnyAddress) {
  const float values[3] = {1.5f, -0.0f, 65504.0f};
  const uint16_t bf16[3] = {0x3FC0, 0x8000, 0x477F};
  const uint16_t f16[3] = {0x3E00, 0x8000, 0x7BFF};
  const float bf16_values[3] = {1.5f, -0.0f, 65280.0f};
  std::vector<std::byte> bytes(1 + 5 * 12);
  const auto fill = [&bytes](const void* row, size_t row_bytes) {
    for (int r = 0; r < 5; ++r) std::memcpy(bytes.data() + 1 + r * row_bytes, row, row_bytes);
  };
  fill(values, 12);
  StoredMatrix m{.format = WeightFormat::kF32,
                 .rows = 5,
                 .cols = 3,
                 .data = bytes.data() + 1,
                 .row_bytes = 12};
  EXPECT_EQ(Decode(m, 4), std::vector<float>(values, values + 3));
  fill(bf16, 6);
  m.format = WeightFormat::kBf16;
  m.row_bytes = 6;
  EXPECT_EQ(Decode(m, 4), std::vector<float>(bf16_values, bf16_values + 3));
  fill(f16, 6);
  m.format = WeightFormat::kF16;
  EXPECT_EQ(Decode(m, 4), std::vector<float>(values, values + 3));
  EXPECT_EQ(ScaleAt(m, 4, 2), 1.0f);
}

// 576 rows of kv_a: five scale rows, the last over 64 rows only; 200 columns: the last block is 72
// wide.
TEST(StoredMatrix, BlockFp8EdgesUseTheirOwnScale) {
  constexpr int64_t kRows = 576, kCols = 200;
  std::vector<uint8_t> codes(kRows * kCols);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i * 7 % 0x7F);
  std::vector<float> scales(5 * 2);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.37f * static_cast<float>(i + 1);
  const StoredMatrix m{.format = WeightFormat::kFp8Block,
                       .rows = kRows,
                       .cols = kCols,
                       .data = Bytes(codes),
                       .row_bytes = kCols,
                       .scales = Bytes(scales),
                       .scale_row_bytes = 8,
                       .block_rows = 128,
                       .block_cols = 128};
  EXPECT_EQ(ScaleGroup(m), 128);
  for (int64_t row : {0, 127, 128, 511, 512, 575}) {
    const std::vector<float> got = Decode(m, row);
    for (int64_t col = 0; col < kCols; ++col) {
      const float scale = scales[static_cast<size_t>(row / 128 * 2 + col / 128)];
      ASSERT_EQ(ScaleAt(m, row, col), scale);
      const long double exact =
          E4M3(codes[static_cast<size_t>(row * kCols + col)]) * static_cast<long double>(scale);
      ASSERT_EQ(got[static_cast<size_t>(col)], static_cast<float>(exact)) << row << ", " << col;
    }
  }
}

// Rows 448 h + 192 of kv_b: the K/V boundary inside a head is block-aligned for no odd head.
TEST(StoredMatrix, BlockFp8SplitRowsKeepTheirScale) {
  constexpr int64_t kRows = 4 * 448, kCols = 128;
  const std::vector<uint8_t> codes(kRows * kCols, 0x38);  // 1.0
  std::vector<float> scales(kRows / 128);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<float>(i + 1);
  StoredMatrix m{.format = WeightFormat::kFp8Block,
                 .rows = kRows,
                 .cols = kCols,
                 .data = Bytes(codes),
                 .row_bytes = kCols,
                 .scales = Bytes(scales),
                 .scale_row_bytes = 4,
                 .block_rows = 128,
                 .block_cols = 128};
  for (int64_t head = 0; head < 4; ++head) {
    for (int64_t row : {448 * head, 448 * head + 191, 448 * head + 192, 448 * head + 447}) {
      EXPECT_EQ(Decode(m, row)[5], static_cast<float>(row / 128 + 1)) << row;
    }
  }
}

TEST(StoredMatrix, ChannelAndTensorFp8) {
  std::vector<uint8_t> codes(2 * 256);
  for (int i = 0; i < 512; ++i) codes[static_cast<size_t>(i)] = static_cast<uint8_t>(i);
  const std::vector<float> scales = {0.1f, 3.7f};
  StoredMatrix m{.format = WeightFormat::kFp8Channel,
                 .rows = 2,
                 .cols = 256,
                 .data = Bytes(codes),
                 .row_bytes = 256,
                 .scales = Bytes(scales),
                 .scale_row_bytes = 4};
  for (int variant = 0; variant < 2; ++variant) {
    if (variant == 1) {
      m.format = WeightFormat::kFp8Tensor;
      m.scale_row_bytes = 0;
    }
    for (int64_t row = 0; row < 2; ++row) {
      const float scale = variant == 0 ? scales[static_cast<size_t>(row)] : scales[0];
      const std::vector<float> got = Decode(m, row);
      for (int code = 0; code < 256; ++code) {
        const float value = got[static_cast<size_t>(code)];
        if ((code & 0x7F) == 0x7F) {
          ASSERT_TRUE(std::isnan(value)) << code;
        } else {
          ASSERT_EQ(value, static_cast<float>(E4M3(code) * static_cast<long double>(scale)))
              << code;
        }
      }
    }
  }
}

TEST(StoredMatrix, Mxfp4EveryByteAndScale) {
  // Row s holds all 256 bytes under scale s; rows are spaced out, as when gate and up rows
  // interleave.
  constexpr int64_t kStride = 300, kScaleStride = 20;
  std::vector<uint8_t> codes(256 * kStride), scales(256 * kScaleStride);
  for (int s = 0; s < 256; ++s) {
    for (int i = 0; i < 256; ++i)
      codes[static_cast<size_t>(s * kStride + i)] = static_cast<uint8_t>(i);
    for (int g = 0; g < 16; ++g)
      scales[static_cast<size_t>(s * kScaleStride + g)] = static_cast<uint8_t>(s);
  }
  const StoredMatrix m{.format = WeightFormat::kMxfp4,
                       .rows = 256,
                       .cols = 512,
                       .data = Bytes(codes),
                       .row_bytes = kStride,
                       .scales = Bytes(scales),
                       .scale_row_bytes = kScaleStride};
  EXPECT_EQ(ScaleGroup(m), 32);
  for (int s = 0; s < 256; ++s) {
    const std::vector<float> got = Decode(m, s);
    for (int i = 0; i < 512; ++i) {
      const int nibble = i % 2 == 0 ? (i / 2) & 15 : (i / 2) >> 4;
      const float value = got[static_cast<size_t>(i)];
      if (s == 255) {
        ASSERT_TRUE(std::isnan(value));
        continue;
      }
      const long double magnitude = std::ldexp(kE2M1[nibble & 7], s - 127);
      const float want = static_cast<float>((nibble & 8) != 0 ? -magnitude : magnitude);
      ASSERT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(want)) << s << ", " << i;
    }
  }
}

TEST(StoredMatrix, Nvfp4EveryScaleAndCode) {
  for (float global : {1.0f, 0.5f, 1.0f / 3.0f, 0.00037f, 12345.678f}) {
    // Row s: 16 codes under E4M3 scale s.
    std::vector<uint8_t> codes(256 * 8), scales(256);
    for (int s = 0; s < 256; ++s) {
      scales[static_cast<size_t>(s)] = static_cast<uint8_t>(s);
      for (int i = 0; i < 8; ++i) {
        codes[static_cast<size_t>(s * 8 + i)] = static_cast<uint8_t>((2 * i) | ((2 * i + 1) << 4));
      }
    }
    const StoredMatrix m{.format = WeightFormat::kNvfp4,
                         .rows = 256,
                         .cols = 16,
                         .data = Bytes(codes),
                         .row_bytes = 8,
                         .scales = Bytes(scales),
                         .scale_row_bytes = 1,
                         .global_scale = global};
    EXPECT_EQ(ScaleGroup(m), 16);
    for (int s = 0; s < 256; ++s) {
      const std::vector<float> got = Decode(m, s);
      for (int code = 0; code < 16; ++code) {
        const float value = got[static_cast<size_t>(code)];
        if ((s & 0x7F) == 0x7F) {
          ASSERT_TRUE(std::isnan(value));
          continue;
        }
        // The product of the scales is rounded to f32 once, then the product with the element once.
        const float scale = static_cast<float>(E4M3(s) * static_cast<long double>(global));
        const long double element = (code & 8) != 0 ? -kE2M1[code & 7] : kE2M1[code & 7];
        ASSERT_EQ(value, static_cast<float>(element * static_cast<long double>(scale)))
            << "scale " << s << " code " << code << " global " << global;
      }
    }
  }
}

TEST(StoredMatrix, RowBytesAndNames) {
  const struct {
    WeightFormat format;
    const char* name;
    int64_t bytes_of_64;
  } rows[] = {{WeightFormat::kF32, "f32", 256},
              {WeightFormat::kF16, "f16", 128},
              {WeightFormat::kBf16, "bf16", 128},
              {WeightFormat::kFp8Block, "fp8_block", 64},
              {WeightFormat::kFp8Channel, "fp8_channel", 64},
              {WeightFormat::kFp8Tensor, "fp8_tensor", 64},
              {WeightFormat::kMxfp4, "mxfp4", 32},
              {WeightFormat::kNvfp4, "nvfp4", 32}};
  for (const auto& row : rows) {
    EXPECT_EQ(WeightFormatName(row.format), row.name);
    EXPECT_EQ(PackedRowBytes(row.format, 64), row.bytes_of_64) << row.name;
  }
}

}  // namespace
}  // namespace quern
