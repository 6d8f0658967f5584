#include "quern/text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "quern/text/utf8.h"

namespace quern::text {
namespace {

std::unique_ptr<Tokenizer> Tiny() {
  return Tokenizer::FromFile(std::string(QUERN_SOURCE_DIR) + "/tests/data/tokenizer/tokenizer.json")
      .value();
}

bool IsWholeUtf8(std::string text) {
  std::string out;
  const std::string before = text;
  TakeUtf8(text, out);
  return text.empty() && out == before;
}

std::string Stream(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool skip) {
  Detokenizer detokenizer(tokenizer, skip);
  std::string text;
  for (const int32_t id : ids) {
    const std::string piece = detokenizer.Push(id);
    EXPECT_TRUE(IsWholeUtf8(piece));
    text += piece;
  }
  return text + detokenizer.Flush();
}

// Base tokens 0 to 255 are single bytes, so random ids make broken characters of every kind.
TEST(Detokenizer, EqualsDecodingEverythingAtOnce) {
  const auto tokenizer = Tiny();
  std::mt19937 rng(11);
  for (int round = 0; round < 3000; ++round) {
    std::vector<int32_t> ids(rng() % 24);
    for (int32_t& id : ids) {
      const uint32_t range = rng() % 4 == 0 ? static_cast<uint32_t>(tokenizer->vocab_size()) : 256;
      id = static_cast<int32_t>(rng() % range);
    }
    for (const bool skip : {false, true}) {
      ASSERT_EQ(Stream(*tokenizer, ids, skip), tokenizer->Decode(ids, skip).value());
    }
  }
}

TEST(Detokenizer, HoldsACharacterUntilItIsWhole) {
  const auto tokenizer = Tiny();
  Detokenizer detokenizer(*tokenizer);
  const auto ids = tokenizer->Encode("\xF0\x9F\x99\x82!").value();
  ASSERT_EQ(ids.size(), 5u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(detokenizer.Push(ids[i]), "");
  EXPECT_EQ(detokenizer.Push(ids[3]), "\xF0\x9F\x99\x82");
  EXPECT_EQ(detokenizer.Push(ids[4]), "!");
  EXPECT_EQ(detokenizer.Flush(), "");
}

TEST(Detokenizer, AnUnfinishedCharacterIsOneReplacement) {
  const auto tokenizer = Tiny();
  Detokenizer detokenizer(*tokenizer);
  const auto ids = tokenizer->Encode("\xF0\x9F\x99\x82").value();
  detokenizer.Push(ids[0]);
  detokenizer.Push(ids[1]);
  EXPECT_EQ(detokenizer.Flush(), "\xEF\xBF\xBD");
  EXPECT_EQ(detokenizer.Flush(), "");
}

TEST(Detokenizer, SpecialTokensAndPaddingRowsAreSilent) {
  const auto tokenizer = Tiny();
  const int32_t end = tokenizer->TokenId("<|user|>").value();
  EXPECT_EQ(Stream(*tokenizer, {end}, true), "");
  EXPECT_EQ(Stream(*tokenizer, {end}, false), "<|user|>");
  EXPECT_EQ(Stream(*tokenizer, {tokenizer->TokenId("<think>").value()}, true), "<think>");
  EXPECT_EQ(Stream(*tokenizer, {tokenizer->vocab_size(), tokenizer->vocab_size() + 27}, false), "");
}

}  // namespace
}  // namespace quern::text
