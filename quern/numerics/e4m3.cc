#include "quern/numerics/e4m3.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace quern {
namespace {

constexpr float Pow2(int e) { return std::bit_cast<float>(static_cast<uint32_t>(e + 127) << 23); }

constexpr float Decode(uint8_t code) {
  const int exponent = (code >> 3) & 15;
  const int mantissa = code & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = exponent == 0
                              ? static_cast<float>(mantissa) * Pow2(-9)
                              : (1.0f + static_cast<float>(mantissa) / 8) * Pow2(exponent - 7);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

struct Table {
  float values[256];
};
constexpr Table MakeTable() {
  Table t{};
  for (int c = 0; c < 256; ++c) t.values[c] = Decode(static_cast<uint8_t>(c));
  return t;
}
constexpr Table kTable = MakeTable();

}  // namespace

#define QUERN_ROW8(i)                                                                 \
  kTable.values[i], kTable.values[i + 1], kTable.values[i + 2], kTable.values[i + 3], \
      kTable.values[i + 4], kTable.values[i + 5], kTable.values[i + 6], kTable.values[i + 7]
#define QUERN_ROW64(i)                                                                          \
  QUERN_ROW8(i), QUERN_ROW8(i + 8), QUERN_ROW8(i + 16), QUERN_ROW8(i + 24), QUERN_ROW8(i + 32), \
      QUERN_ROW8(i + 40), QUERN_ROW8(i + 48), QUERN_ROW8(i + 56)
extern const float kE4M3Values[256] = {QUERN_ROW64(0), QUERN_ROW64(64), QUERN_ROW64(128),
                                       QUERN_ROW64(192)};
#undef QUERN_ROW64
#undef QUERN_ROW8

uint8_t F32ToE4M3(float value) {
  if (std::isnan(value)) return 0x7F;
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const float magnitude = std::fabs(value);
  if (magnitude >= kE4M3Max) return sign | 0x7E;
  if (magnitude == 0.0f) return sign;  // frexp gives zero the exponent of 1
  // Steps of 2^(e-3) in the binade of 2^e, never finer than the subnormal step 2^-9.
  int e = 0;
  std::frexp(magnitude, &e);  // magnitude = f * 2^e, f in [0.5, 1)
  const int step = std::max(e - 4, -9);
  const int n = static_cast<int>(std::nearbyint(std::ldexp(magnitude, -step)));  // ties to even
  // n steps of 2^step; n = 16 carries into the next binade, which the code arithmetic below
  // absorbs.
  if (step == -9 && n < 8) return sign | static_cast<uint8_t>(n);
  return sign | static_cast<uint8_t>(((step + 10) << 3) + (n - 8));
}

}  // namespace quern
