// Element formats, every code, against values computed from the formats' definitions in long
// double.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "quern/numerics/bf16.h"
#include "quern/numerics/dtype.h"
#include "quern/numerics/e2m1.h"
#include "quern/numerics/e4m3.h"
#include "quern/numerics/e8m0.h"
#include "quern/numerics/f16.h"

namespace quern {
namespace {

// The value of a small float with the given field widths, from IEEE 754's definition; exact in long
// double. Exponent all ones is not special here: callers handle infinities and NaN of their format.
long double SmallFloat(uint32_t code, int exponent_bits, int mantissa_bits, int bias) {
  const uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
  const int exponent = static_cast<int>((code >> mantissa_bits) & ((1u << exponent_bits) - 1));
  const bool negative = ((code >> (mantissa_bits + exponent_bits)) & 1) != 0;
  const long double fraction = std::ldexp(static_cast<long double>(mantissa), -mantissa_bits);
  const long double magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1.0L + fraction, exponent - bias);
  return negative ? -magnitude : magnitude;
}

void ExpectSameBits(float got, float want, uint32_t code) {
  EXPECT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want)) << "code " << code;
}

// A format with finite codes in rising order of magnitude, for testing its encoder.
struct Encoder {
  std::vector<float> magnitudes;  // of codes 0, 1, 2 ...
  uint32_t (*encode)(float);
  uint32_t sign_bit;
};

// Every finite value encodes to its own code; between neighbours, values go to the nearer one and a
// midpoint to the one with an even code, which is the one with an even mantissa.
void ExpectRoundsToNearestEven(const Encoder& e) {
  for (uint32_t code = 0; code < e.magnitudes.size(); ++code) {
    const float here = e.magnitudes[code];
    ASSERT_EQ(e.encode(here), code) << here;
    ASSERT_EQ(e.encode(-here), code | e.sign_bit) << -here;
    if (code + 1 == e.magnitudes.size()) continue;
    const float next = e.magnitudes[code + 1];
    const float middle = here + (next - here) / 2;  // exact: a few bits more than either
    const uint32_t even = code % 2 == 0 ? code : code + 1;
    ASSERT_EQ(e.encode(middle), even) << middle;
    ASSERT_EQ(e.encode(-middle), even | e.sign_bit) << -middle;
    ASSERT_EQ(e.encode(std::nextafter(middle, 0.0f)), code) << middle;
    ASSERT_EQ(e.encode(std::nextafter(middle, INFINITY)), code + 1) << middle;
  }
}

TEST(E2M1, EveryCodeDecodes) {
  for (uint32_t code = 0; code < 16; ++code) {
    ExpectSameBits(E2M1ToF32(static_cast<uint8_t>(code)),
                   static_cast<float>(SmallFloat(code, 2, 1, 1)), code);
  }
  // Bits above the nibble belong to the neighbour.
  EXPECT_EQ(E2M1ToF32(0xF7), 6.0f);
}

TEST(E2M1, RoundsToNearestTiesToEvenAndSaturates) {
  Encoder e{{}, [](float v) -> uint32_t { return F32ToE2M1(v); }, 8};
  for (uint32_t code = 0; code < 8; ++code) {
    e.magnitudes.push_back(static_cast<float>(SmallFloat(code, 2, 1, 1)));
  }
  ExpectRoundsToNearestEven(e);
  const std::pair<float, float> ties[] = {{0.25f, 0}, {0.75f, 1}, {1.25f, 1}, {1.75f, 2},
                                          {2.5f, 2},  {3.5f, 4},  {5.0f, 4}};
  for (const auto& [value, want] : ties) EXPECT_EQ(E2M1ToF32(F32ToE2M1(value)), want) << value;
  for (float big : {6.0f, 6.9f, 7.0f, 1e30f, std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(F32ToE2M1(big), 7) << big;
    EXPECT_EQ(F32ToE2M1(-big), 15) << -big;
  }
  EXPECT_EQ(F32ToE2M1(std::numeric_limits<float>::quiet_NaN()), 7);
}

TEST(E4M3, EveryCodeDecodes) {
  for (uint32_t code = 0; code < 256; ++code) {
    const float got = E4M3ToF32(static_cast<uint8_t>(code));
    if ((code & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(got)) << code;
      continue;
    }
    ExpectSameBits(got, static_cast<float>(SmallFloat(code, 4, 3, 7)), code);
  }
  EXPECT_EQ(E4M3ToF32(0x7E), kE4M3Max);
  EXPECT_EQ(E4M3ToF32(0x01), 0x1p-9f);
}

TEST(E4M3, RoundsToNearestTiesToEvenAndSaturates) {
  Encoder e{{}, [](float v) -> uint32_t { return F32ToE4M3(v); }, 0x80};
  for (uint32_t code = 0; code < 0x7F; ++code) {
    e.magnitudes.push_back(static_cast<float>(SmallFloat(code, 4, 3, 7)));
  }
  ExpectRoundsToNearestEven(e);
  for (float big :
       {448.0f, 449.0f, 464.0f, 480.0f, 1e30f, std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(F32ToE4M3(big), 0x7E) << big;
    EXPECT_EQ(F32ToE4M3(-big), 0xFE) << -big;
  }
  EXPECT_EQ(F32ToE4M3(std::numeric_limits<float>::denorm_min()), 0x00);
  EXPECT_EQ(F32ToE4M3(std::numeric_limits<float>::quiet_NaN()) & 0x7F, 0x7F);
}

TEST(E8M0, EveryCodeIsAPowerOfTwo) {
  for (int code = 0; code < 255; ++code) {
    ExpectSameBits(E8M0ToF32(static_cast<uint8_t>(code)),
                   static_cast<float>(std::ldexp(1.0L, code - 127)), static_cast<uint32_t>(code));
  }
  EXPECT_TRUE(std::isnan(E8M0ToF32(kE8M0Nan)));
}

TEST(F16, EveryCodeDecodes) {
  for (uint32_t code = 0; code < 65536; ++code) {
    const float got = F16ToF32(static_cast<uint16_t>(code));
    const uint32_t mantissa = code & 0x3FF;
    if (((code >> 10) & 31) == 31) {
      if (mantissa != 0) {
        ASSERT_TRUE(std::isnan(got)) << code;
      } else {
        ASSERT_EQ(got, (code & 0x8000) != 0 ? -INFINITY : INFINITY) << code;
      }
      continue;
    }
    ExpectSameBits(got, static_cast<float>(SmallFloat(code, 5, 10, 15)), code);
  }
}

TEST(F16, RoundsToNearestTiesToEven) {
  Encoder e{{}, [](float v) -> uint32_t { return F32ToF16(v); }, 0x8000};
  for (uint32_t code = 0; code < 0x7C00; ++code) {
    e.magnitudes.push_back(static_cast<float>(SmallFloat(code, 5, 10, 15)));
  }
  ExpectRoundsToNearestEven(e);
  // The largest finite value is 65504; halfway to the next step (65536) goes to infinity.
  EXPECT_EQ(F32ToF16(std::nextafter(65520.0f, 0.0f)), 0x7BFF);
  EXPECT_EQ(F32ToF16(65520.0f), 0x7C00);
  EXPECT_EQ(F32ToF16(-std::numeric_limits<float>::infinity()), 0xFC00);
  EXPECT_TRUE(std::isnan(F16ToF32(F32ToF16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(Bf16, EveryCodeDecodes) {
  for (uint32_t code = 0; code < 65536; ++code) {
    const float got = Bf16ToF32(static_cast<uint16_t>(code));
    const uint32_t mantissa = code & 0x7F;
    if (((code >> 7) & 255) == 255) {
      if (mantissa != 0) {
        ASSERT_TRUE(std::isnan(got)) << code;
      } else {
        ASSERT_EQ(got, (code & 0x8000) != 0 ? -INFINITY : INFINITY) << code;
      }
      continue;
    }
    ExpectSameBits(got, static_cast<float>(SmallFloat(code, 8, 7, 127)), code);
  }
}

TEST(Bf16, RoundsToNearestTiesToEven) {
  Encoder e{{}, [](float v) -> uint32_t { return F32ToBf16(v); }, 0x8000};
  for (uint32_t code = 0; code < 0x7F80; ++code) {
    e.magnitudes.push_back(static_cast<float>(SmallFloat(code, 8, 7, 127)));
  }
  ExpectRoundsToNearestEven(e);
  EXPECT_EQ(F32ToBf16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(F32ToBf16(-std::numeric_limits<float>::infinity()), 0xFF80);
  EXPECT_TRUE(std::isnan(Bf16ToF32(F32ToBf16(std::numeric_limits<float>::quiet_NaN()))));
  // A NaN whose payload lies in the lower half only must not become infinity.
  EXPECT_TRUE(std::isnan(Bf16ToF32(F32ToBf16(std::bit_cast<float>(0x7F800001u)))));
}

TEST(Dtype, NamesAndSizesOfTheFileFormat) {
  const struct {
    const char* name;
    int64_t bytes;
  } rows[] = {{"F64", 8},     {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F8_E4M3", 1}, {"F8_E5M2", 1},
              {"F8_E8M0", 1}, {"I64", 8}, {"I32", 4}, {"I16", 2},  {"I8", 1},      {"U64", 8},
              {"U32", 4},     {"U16", 2}, {"U8", 1},  {"BOOL", 1}};
  for (const auto& row : rows) {
    const auto dtype = DtypeFromName(row.name);
    ASSERT_TRUE(dtype.has_value()) << row.name;
    EXPECT_EQ(DtypeName(*dtype), row.name);
    EXPECT_EQ(DtypeBytes(*dtype), row.bytes) << row.name;
  }
  for (const char* unknown : {"", "bf16", "F4", "F8", "INT4", "BF16 "}) {
    EXPECT_FALSE(DtypeFromName(unknown).has_value()) << unknown;
  }
}

}  // namespace
}  // namespace quern
