#include "quern/text/utf8.h"

#include <gtest/gtest.h>

#include <random>

namespace quern::text {
namespace {

std::string Decode(std::string bytes) {
  std::string out;
  TakeUtf8(bytes, out);
  if (!bytes.empty()) out += kReplacementCharacter;
  return out;
}

constexpr const char* kBad = "\xEF\xBF\xBD";

TEST(Utf8, WholeCharactersPass) {
  const std::string text = "a\xC3\xA9\xE4\xBD\xA0\xF0\x9F\x99\x82\x7F";
  EXPECT_EQ(Decode(text), text);
}

// The division of broken text that the Unicode standard recommends (section 3.9, "maximal
// subparts").
TEST(Utf8, BrokenRunsGiveOneReplacementEach) {
  const std::string bad = kBad;
  EXPECT_EQ(Decode("\x80"), bad);
  EXPECT_EQ(Decode("\xC0\x80"), bad + bad);                      // overlong
  EXPECT_EQ(Decode("\xE0\x80\x80"), bad + bad + bad);            // overlong
  EXPECT_EQ(Decode("\xED\xA0\x80"), bad + bad + bad);            // a surrogate
  EXPECT_EQ(Decode("\xF4\x90\x80\x80"), bad + bad + bad + bad);  // past U+10FFFF
  EXPECT_EQ(Decode("\xF0\x9F\x99z"), bad + "z");                 // cut after three bytes: one run
  EXPECT_EQ(Decode("\xE4\xBD\xF0\x9F\x99\x82"), bad + "\xF0\x9F\x99\x82");
  EXPECT_EQ(Decode("\xF8\xFF"), bad + bad);
  EXPECT_EQ(Decode("a\xF0\x9F"), "a" + bad);
}

TEST(Utf8, UnfinishedCharactersStay) {
  std::string bytes = "a\xF0\x9F\x99", out;
  TakeUtf8(bytes, out);
  EXPECT_EQ(out, "a");
  EXPECT_EQ(bytes, "\xF0\x9F\x99");
  bytes += "\x82";
  TakeUtf8(bytes, out);
  EXPECT_EQ(out, "a\xF0\x9F\x99\x82");
  EXPECT_EQ(bytes, "");
}

TEST(Utf8, ChunkingChangesNothing) {
  std::mt19937 rng(3);
  const unsigned char bytes[] = {'a',  0x80, 0xBF, 0xC3, 0xE0, 0xA0, 0xED, 0x9F,
                                 0xF0, 0x90, 0xF4, 0x8F, 0xFF, 0xC1, 0xE4, 0x99};
  for (int round = 0; round < 2000; ++round) {
    std::string text(rng() % 12, '\0');
    for (char& c : text) c = static_cast<char>(bytes[rng() % std::size(bytes)]);
    std::string pending, out;
    for (const char c : text) {
      pending += c;
      TakeUtf8(pending, out);
      ASSERT_LE(pending.size(), 3u);
    }
    if (!pending.empty()) out += kReplacementCharacter;
    ASSERT_EQ(out, Decode(text));
  }
}

}  // namespace
}  // namespace quern::text
