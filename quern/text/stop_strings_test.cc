#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "quern/text/detokenizer.h"

namespace quern::text {
namespace {

struct Outcome {
  std::string text;
  std::string matched;  // "" for none
  bool operator==(const Outcome&) const = default;
};

void PrintTo(const Outcome& outcome, std::ostream* os) {
  *os << '"' << outcome.text << "\" stopped by \"" << outcome.matched << '"';
}

// The definition: the match that begins earliest in the whole text, the shorter of two.
Outcome Expected(const std::string& text, const std::vector<std::string>& stops) {
  size_t best = std::string::npos;
  std::string matched;
  for (const std::string& stop : stops) {
    if (stop.empty()) continue;
    const size_t at = text.find(stop);
    if (at == std::string::npos) continue;
    if (at < best || (at == best && stop.size() < matched.size())) {
      best = at;
      matched = stop;
    }
  }
  return {text.substr(0, best), matched};
}

Outcome Streamed(const std::vector<std::string>& pieces, const std::vector<std::string>& stops) {
  StopStrings stop_strings(stops);
  std::string text;
  for (const std::string& piece : pieces) text += stop_strings.Push(piece);
  text += stop_strings.Flush();
  return {text, stop_strings.stopped() ? stop_strings.matched() : ""};
}

// Bit i of `cuts` cuts after byte i.
std::vector<std::string> Cut(const std::string& text, uint32_t cuts) {
  std::vector<std::string> pieces(1);
  for (size_t i = 0; i < text.size(); ++i) {
    pieces.back() += text[i];
    if (cuts >> i & 1) pieces.emplace_back();
  }
  return pieces;
}

TEST(StopStrings, EveryChunkingOfEveryOverlap) {
  const std::vector<std::vector<std::string>> stop_lists = {
      {},
      {"ab"},
      {"aa"},
      {"aab", "ab"},
      {"abcd", "bc"},
      {"b", "abc"},
      {"abab", "b"},
      {"aaa", "aab"},
      {""},
      {"abc", "abc"},
      {"ab", "abc"},
      {"\n\nU", "\n"},
      {"abcabd", "cab"},
  };
  const std::vector<std::string> texts = {
      "", "a", "ab", "aab", "abcd", "abce", "xabab", "aaab", "abcabcabd", "cabcabc", "a\n\nUb",
  };
  for (const auto& stops : stop_lists) {
    for (const std::string& text : texts) {
      const Outcome expected = Expected(text, stops);
      for (uint32_t cuts = 0; cuts < 1u << text.size(); ++cuts) {
        ASSERT_EQ(Streamed(Cut(text, cuts), stops), expected) << text << " cuts " << cuts;
      }
    }
  }
}

TEST(StopStrings, RandomTextsAndChunkings) {
  std::mt19937 rng(5);
  for (int round = 0; round < 20000; ++round) {
    const auto random_text = [&](size_t max) {
      std::string text(rng() % (max + 1), ' ');
      for (char& c : text) c = "abc"[rng() % 3];
      return text;
    };
    std::vector<std::string> stops(rng() % 4);
    for (std::string& stop : stops) stop = random_text(5);
    const std::string text = random_text(30);
    ASSERT_EQ(Streamed(Cut(text, rng()), stops), Expected(text, stops)) << text;
  }
}

TEST(StopStrings, WithholdsNoMoreThanNeeded) {
  StopStrings stops({"</end>", "STOP"});
  EXPECT_EQ(stops.Push("hello <"), "hello ");
  EXPECT_EQ(stops.Push("/en"), "");
  EXPECT_EQ(stops.Push("tr> S"), "</entr> ");
  EXPECT_EQ(stops.Push("TOP more"), "");
  EXPECT_TRUE(stops.stopped());
  EXPECT_EQ(stops.matched(), "STOP");
  EXPECT_EQ(stops.Push("more"), "");
  EXPECT_EQ(stops.Flush(), "");
}

}  // namespace
}  // namespace quern::text
