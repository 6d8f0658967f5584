// The group formats made at load or per step: their definitions written out again, and their
// corners.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "quern/numerics/bf16.h"
#include "quern/numerics/e4m3.h"
#include "quern/numerics/fp8_group.h"
#include "quern/numerics/int8_group.h"

namespace quern {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Int8Group, ScaleAndCodesOfAKnownGroup) {
  const float values[] = {-127.0f, 127.0f, 0.5f, 1.5f, 2.5f, -0.5f, 0.0f, 63.49f};
  int8_t codes[8];
  EXPECT_EQ(QuantizeInt8Group(values, 8, false, codes), 1.0f);
  const int want[] = {-127, 127, 0, 2, 2, 0, 0, 63};  // ties go to even
  for (int i = 0; i < 8; ++i) EXPECT_EQ(codes[i], want[i]) << i;
}

TEST(Int8Group, EveryValueIsWithinHalfAStep) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 1000; ++round) {
    float values[kInt8Group];
    int8_t codes[kInt8Group];
    const float size = std::exp2(static_cast<float>(round % 200 - 100));
    for (float& v : values) v = normal(rng) * size;
    for (bool bf16 : {false, true}) {
      const float scale = QuantizeInt8Group(values, kInt8Group, bf16, codes);
      // The largest is clamped where its scale was rounded down: by at most 127 * 2^-9 of a step.
      const double step = 0.5 + 1e-5;
      for (int i = 0; i < kInt8Group; ++i) {
        EXPECT_LE(std::fabs(values[i] / static_cast<double>(scale) - codes[i]), step) << i;
      }
    }
  }
}

TEST(Int8Group, ZerosTinyAndNonFiniteValues) {
  int8_t codes[2] = {1, 1};
  const float zeros[] = {0.0f, -0.0f};
  EXPECT_EQ(QuantizeInt8Group(zeros, 2, false, codes), 0.0f);
  EXPECT_EQ(codes[0], 0);
  const float least = std::numeric_limits<float>::denorm_min();
  const float tiny[] = {60 * least, -least};  // scale rounds to zero
  EXPECT_EQ(QuantizeInt8Group(tiny, 2, false, codes), 0.0f);
  EXPECT_EQ(codes[0], 0);
  const float small[] = {189 * least, -least};  // scale rounds to one step: clamped
  EXPECT_EQ(QuantizeInt8Group(small, 2, false, codes), least);
  EXPECT_EQ(codes[0], 127);
  EXPECT_EQ(codes[1], -1);
  for (float bad : {kInf, -kInf, std::nanf("")}) {
    const float values[] = {1.0f, bad};
    EXPECT_TRUE(std::isnan(QuantizeInt8Group(values, 2, true, codes)));
    EXPECT_EQ(codes[0], 0);
    EXPECT_EQ(codes[1], 0);
  }
  const float huge[] = {std::numeric_limits<float>::max(), 1.0f};
  EXPECT_TRUE(std::isfinite(QuantizeInt8Group(huge, 2, true, codes)));
  EXPECT_EQ(codes[0], 127);
}

TEST(Int8Row, DecodesWithinAStepAndKeepsAShortLastGroup) {
  std::mt19937 rng(2);
  std::normal_distribution<float> normal;
  for (int64_t cols : {1, 31, 32, 33, 100}) {
    std::vector<float> row(static_cast<size_t>(cols)), back(row.size());
    for (float& v : row) v = normal(rng);
    std::vector<int8_t> codes(row.size());
    std::vector<uint16_t> scales((row.size() + 31) / 32);
    EncodeInt8Row(row.data(), cols, codes.data(), scales.data());
    DecodeInt8Row(codes.data(), scales.data(), cols, back.data());
    for (size_t i = 0; i < row.size(); ++i) {
      EXPECT_EQ(back[i], Bf16ToF32(scales[i / 32]) * static_cast<float>(codes[i]));
      EXPECT_NEAR(back[i], row[i], 0.501f * Bf16ToF32(scales[i / 32]));
    }
  }
}

TEST(Fp8Row, UsesTheWholeRangePerGroup) {
  std::mt19937 rng(3);
  std::normal_distribution<float> normal;
  const int64_t cols = 300;
  std::vector<float> row(static_cast<size_t>(cols));
  for (size_t i = 0; i < row.size(); ++i) row[i] = normal(rng) * (i < 128 ? 1e-6f : 100.0f);
  for (size_t i = 256; i < row.size(); ++i) row[i] = 0.0f;
  std::vector<uint8_t> codes(row.size());
  std::vector<float> scales(3);
  EncodeFp8Row(row.data(), cols, codes.data(), scales.data());
  float largest[2] = {};
  for (size_t i = 0; i < 256; ++i) {
    const float value = E4M3ToF32(codes[i]) * scales[i / 128];
    largest[i / 128] = std::max(largest[i / 128], std::fabs(E4M3ToF32(codes[i])));
    // Half a step: 2^-4 of the value, or of the least normal value.
    EXPECT_NEAR(value, row[i], std::max(std::fabs(row[i]), 0x1p-6f * scales[i / 128]) * 0x1.01p-4f);
  }
  EXPECT_EQ(largest[0], kE4M3Max);
  EXPECT_EQ(largest[1], kE4M3Max);
  EXPECT_EQ(scales[2], 0.0f);
  EXPECT_EQ(codes[299], 0);
  row[5] = kInf;
  EncodeFp8Row(row.data(), cols, codes.data(), scales.data());
  EXPECT_TRUE(std::isnan(scales[0]));
  EXPECT_FALSE(std::isnan(scales[1]));
}

}  // namespace
}  // namespace quern
