#include "quern/numerics/mxfp4.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "quern/base/json.h"

namespace quern {
namespace {

// Magnitudes of the eight E2M1 codes as the OCP MX specification lists them.
constexpr long double kMagnitudes[8] = {0.0L, 0.5L, 1.0L, 1.5L, 2.0L, 3.0L, 4.0L, 6.0L};

long double Element(int nibble) {
  return (nibble & 8) != 0 ? -kMagnitudes[nibble & 7] : kMagnitudes[nibble];
}

TEST(Mxfp4, EveryByteUnderEveryScaleDecodesExactly) {
  // A row of 512 elements holds all 256 bytes; its 16 groups share the scale under test.
  std::vector<uint8_t> codes(256);
  for (int i = 0; i < 256; ++i) codes[i] = static_cast<uint8_t>(i);
  std::vector<float> row(512);
  for (int scale = 0; scale < 255; ++scale) {
    const std::vector<uint8_t> scales(16, static_cast<uint8_t>(scale));
    DecodeMxfp4Row(codes.data(), scales.data(), 512, row.data());
    for (int i = 0; i < 512; ++i) {
      const int nibble = i % 2 == 0 ? codes[i / 2] & 15 : codes[i / 2] >> 4;
      const float want = static_cast<float>(std::ldexp(Element(nibble), scale - 127));
      ASSERT_EQ(std::bit_cast<uint32_t>(row[i]), std::bit_cast<uint32_t>(want))
          << "byte " << i / 2 << " element " << i % 2 << " scale " << scale;
    }
  }
}

TEST(Mxfp4, NanScaleGivesNan) {
  const std::vector<uint8_t> codes(16, 0x21);
  const uint8_t scale = 0xFF;
  std::vector<float> row(32);
  DecodeMxfp4Row(codes.data(), &scale, 32, row.data());
  for (float value : row) EXPECT_TRUE(std::isnan(value));
}

TEST(Mxfp4, EachGroupHasItsOwnScale) {
  const std::vector<uint8_t> codes(48, 0x22);  // 96 elements of 1.0
  const uint8_t scales[3] = {127, 130, 120};
  std::vector<float> row(96);
  DecodeMxfp4Row(codes.data(), scales, 96, row.data());
  for (int i = 0; i < 96; ++i) EXPECT_EQ(row[i], std::ldexp(1.0f, scales[i / 32] - 127)) << i;
}

TEST(Mxfp4, EvenScaleRisesAtMantissa175) {
  struct {
    float mantissa;
    int rise;
  } const rows[] = {{1.0f, 0}, {1.5f, 0}, {1.7499f, 0}, {1.75f, 1}, {1.99f, 1}};
  for (const auto& row : rows) {
    for (int e = -100; e <= 120; ++e) {
      const float amax = std::ldexp(row.mantissa, e);
      EXPECT_EQ(Mxfp4EvenScale(amax), e + row.rise - 2 + 127) << row.mantissa << " * 2^" << e;
    }
  }
  // The last float below 1.75.
  EXPECT_EQ(Mxfp4EvenScale(std::nextafter(1.75f, 0.0f)), 125);
}

TEST(Mxfp4, EvenScaleIsClamped) {
  EXPECT_EQ(Mxfp4EvenScale(0.0f), 1);
  EXPECT_EQ(Mxfp4EvenScale(0x1p-149f), 1);
  EXPECT_EQ(Mxfp4EvenScale(0x1p-126f), 1);
  EXPECT_EQ(Mxfp4EvenScale(0x1p-124f), 1);
  EXPECT_EQ(Mxfp4EvenScale(0x1p-123f), 2);
  EXPECT_LE(Mxfp4EvenScale(std::numeric_limits<float>::max()), 254);
  EXPECT_EQ(Mxfp4EvenScale(std::numeric_limits<float>::max()), 253);
}

// Encoding a decoded row gives back its values. The codes themselves may differ where a group's
// largest element is below 4 (a smaller scale says the same), so values are compared.
TEST(Mxfp4, DecodedRowsAreFixedPoints) {
  std::mt19937 rng(1);
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<uint8_t> codes(64), scales(4), codes2(64), scales2(4);
    for (auto& c : codes) c = static_cast<uint8_t>(rng());
    for (auto& s : scales) s = static_cast<uint8_t>(20 + rng() % 200);
    std::vector<float> row(128), row2(128);
    DecodeMxfp4Row(codes.data(), scales.data(), 128, row.data());
    EncodeMxfp4Row(row.data(), 128, codes2.data(), scales2.data());
    DecodeMxfp4Row(codes2.data(), scales2.data(), 128, row2.data());
    for (int i = 0; i < 128; ++i)
      ASSERT_EQ(row[i], row2[i]) << "trial " << trial << " element " << i;
  }
}

// Every element goes to the representable value nearest to it, or to 6 scales when beyond.
TEST(Mxfp4, EncodesToTheNearestValue) {
  std::mt19937 rng(2);
  std::normal_distribution<float> normal;
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<float> group(32), decoded(32);
    const float size = std::ldexp(1.0f, static_cast<int>(rng() % 60) - 30);
    for (float& v : group) v = normal(rng) * size;
    std::vector<uint8_t> codes(16);
    uint8_t scale = 0;
    EncodeMxfp4Row(group.data(), 32, codes.data(), &scale);
    DecodeMxfp4Row(codes.data(), &scale, 32, decoded.data());
    for (int i = 0; i < 32; ++i) {
      long double best = INFINITY;
      for (int nibble = 0; nibble < 16; ++nibble) {
        const long double value = std::ldexp(Element(nibble), scale - 127);
        best = std::min(best, std::fabs(value - static_cast<long double>(group[i])));
      }
      ASSERT_EQ(std::fabs(static_cast<long double>(decoded[i]) - group[i]), best)
          << "trial " << trial << " element " << i << ": " << group[i] << " -> " << decoded[i];
    }
  }
}

// Byte for byte what AMD Quark stores, and the same values back
// (tools/goldens/make_quark_mxfp4.py).
TEST(Mxfp4, EncodesTheBytesOfQuark) {
  const Result<Json> file = ReadJsonFile(QUERN_SOURCE_DIR "/tests/data/quark_mxfp4.json");
  ASSERT_TRUE(file.ok()) << file.status().message();
  const Json& groups = (*file)["groups"];
  ASSERT_GE(groups.size(), 100u);
  for (size_t g = 0; g < groups.size(); ++g) {
    std::vector<float> values;
    for (const Json& bits : groups[g]["values"])
      values.push_back(std::bit_cast<float>(bits.get<uint32_t>()));
    ASSERT_EQ(values.size(), 32u);
    std::vector<uint8_t> codes(16);
    uint8_t scale = 0;
    EncodeMxfp4Row(values.data(), 32, codes.data(), &scale);
    EXPECT_EQ(scale, groups[g]["scale"].get<int>()) << "group " << g;
    std::string hex;
    for (uint8_t code : codes) hex += fmt::format("{:02x}", code);
    EXPECT_EQ(hex, groups[g]["codes"].get<std::string>())
        << "group " << g << ", scale " << int{scale};
  }
}

TEST(Mxfp4, ZeroGroupIsAllZero) {
  const std::vector<float> zeros(32, 0.0f);
  std::vector<uint8_t> codes(16, 0xAB);
  uint8_t scale = 0xAB;
  EncodeMxfp4Row(zeros.data(), 32, codes.data(), &scale);
  EXPECT_EQ(scale, 1);
  for (uint8_t code : codes) EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace quern
