#include "quern/checkpoint/dialects/name_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "quern/checkpoint/dialects/glob.h"

namespace quern::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(GlobMatch, FollowsFnmatch) {
  struct Case {
    const char* pattern;
    const char* name;
    bool matches;
  };
  const Case cases[] = {
      {"*self_attn*", "model.layers.3.self_attn.q_a_proj", true},
      {"*self_attn*", "model.layers.3.mlp.gate", false},
      {"model.layers.*.mlp", "model.layers.10.mlp", true},
      {"model.layers.*.mlp", "model.layers.10.x.y.mlp", true},  // '*' crosses dots
      {"model.layers.*.mlp", "model.layers.10.mlp.gate", false},
      {"model.layers.?.mlp", "model.layers.3.mlp", true},
      {"model.layers.?.mlp", "model.layers.10.mlp", false},
      {"model.layers.[12].mlp", "model.layers.2.mlp", true},
      {"model.layers.[!12].mlp", "model.layers.2.mlp", false},
      {"model.layers.[!12].mlp", "model.layers.3.mlp", true},
      {"model.layers.[0-4].mlp", "model.layers.4.mlp", true},
      {"model.layers.[0-4].mlp", "model.layers.5.mlp", false},
      {"[]]", "]", true},
      {"a[b", "a[b", true},  // an unclosed class is itself
      {"a[", "a[", true},
      {"a[!", "a[!", true},
      {"*", "", true},
      {"", "", true},
      {"", "a", false},
      {"**a**", "xxaxx", true},
      {"a*b*c", "a-b-b-c", true},
      {"a*b*c", "a-b-b-", false},
      {"Self", "self", false},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(GlobMatch(c.pattern, c.name), c.matches) << c.pattern << " / " << c.name;
  }
}

TEST(GlobMatch, ManyStarsTakeNoExponentialTime) {
  const std::string name(2000, 'a');
  std::string pattern;
  for (int i = 0; i < 100; ++i) pattern += "a*";
  EXPECT_FALSE(GlobMatch(pattern + "b", name));
}

TEST(LongestLiteral, IsInEveryMatch) {
  EXPECT_EQ(LongestLiteral("*self_attn*"), "self_attn");
  EXPECT_EQ(LongestLiteral("layers.?.mlp.experts.*"), ".mlp.experts.");
  EXPECT_EQ(LongestLiteral("a[bcdefgh]ij"), "ij");
  EXPECT_EQ(LongestLiteral("plain"), "plain");
  EXPECT_EQ(LongestLiteral("*?["), "");
}

TEST(Regex, MatchesAtTheStart) {
  auto regex = Regex::Compile(".*mlp\\.gate$");
  ASSERT_TRUE(regex.ok());
  EXPECT_EQ(regex->MatchStart("model.layers.3.mlp.gate"), Regex::Outcome::kYes);
  EXPECT_EQ(regex->MatchStart("model.layers.3.mlp.gate_proj"), Regex::Outcome::kNo);
  auto anchored = Regex::Compile("layers");
  ASSERT_TRUE(anchored.ok());
  EXPECT_EQ(anchored->MatchStart("model.layers.3"), Regex::Outcome::kNo);
  auto lookahead = Regex::Compile("(?!.*experts).*_proj");
  ASSERT_TRUE(lookahead.ok());
  EXPECT_EQ(lookahead->MatchStart("mlp.gate_proj"), Regex::Outcome::kYes);
  EXPECT_EQ(lookahead->MatchStart("mlp.experts.0.gate_proj"), Regex::Outcome::kNo);
}

TEST(Regex, RefusesBadAndCostlyPatterns) {
  EXPECT_THAT(Regex::Compile("(unclosed").status().message(), HasSubstr("at byte 9"));
  EXPECT_THAT(Regex::Compile(std::string(5000, 'a')).status().message(), HasSubstr("4096"));
  auto costly = Regex::Compile("(a+)+$");
  ASSERT_TRUE(costly.ok());
  EXPECT_EQ(costly->MatchStart(std::string(60, 'a') + "b"), Regex::Outcome::kTooCostly);
}

// All ways to match at once; each test allows what it is about.
NameRules Make(unsigned kinds, const std::vector<std::string>& patterns) {
  NameRules rules("exclude", kinds);
  Problems problems;
  for (const std::string& pattern : patterns) rules.Add(pattern, problems);
  EXPECT_THAT(problems.errors(), IsEmpty());
  return rules;
}

TEST(NameRules, EachKindMatchesAsItSays) {
  const std::string q = "model.layers.1.self_attn.q_a_proj";
  struct Case {
    unsigned kinds;
    const char* pattern;
    const char* name;
    bool matches;
  };
  const unsigned kFp8 = match::kExact | match::kPrefix | match::kSuffix | match::kGlob |
                        match::kGlobTree | match::kRegex | match::kBareRegex;
  const Case cases[] = {
      {match::kExact, "model.layers.1.self_attn.q_a_proj", q.c_str(), true},
      {match::kExact, "model.layers.1.self_attn.q_a_proj.weight", q.c_str(), true},
      {match::kExact, "model.layers.1.self_attn", q.c_str(), false},
      {match::kPrefix | match::kExact, "model.layers.1.self_attn", q.c_str(), true},
      {match::kPrefix | match::kExact, "model.layers.1", "model.layers.10.mlp", false},
      {match::kPrefix | match::kExact, "model.layers.1.self", q.c_str(), false},
      {match::kSuffix | match::kExact, "self_attn.q_a_proj", q.c_str(), true},
      {match::kSuffix | match::kExact, "a_proj", q.c_str(), false},
      {match::kSubstring, "attn.q_a", q.c_str(), true},
      {match::kSubstring, "attn.q_b", q.c_str(), false},
      {match::kGlob, "*.self_attn", q.c_str(), false},
      {match::kGlob | match::kGlobTree, "*.self_attn", q.c_str(), true},
      {match::kGlob | match::kGlobTree, "*.self", q.c_str(), false},
      {match::kExact, "*self_attn*", q.c_str(), false},  // no globs allowed: a plain name
      {match::kRegex, "re:.*self_attn", q.c_str(), true},
      {match::kRegex, "re:self_attn", q.c_str(), false},
      {kFp8, "model\\.layers\\.\\d\\.self_attn", q.c_str(), true},
      {kFp8, "model\\.layers\\.\\d\\.self_att", q.c_str(), false},  // ends inside a component
      {kFp8, "model.layers.*", q.c_str(), true},
      {kFp8, "*self_attn*", q.c_str(), true},
      {kFp8, "", q.c_str(), false},
  };
  for (const Case& c : cases) {
    NameRules rules = Make(c.kinds, {c.pattern});
    EXPECT_EQ(rules.Find(c.name) == 0, c.matches) << c.pattern << " / " << c.name;
  }
}

TEST(NameRules, FirstInFileOrderWinsWhateverItsKind) {
  NameRules rules = Make(match::kExact | match::kPrefix | match::kGlob | match::kRegex,
                         {"re:nothing", "*proj*", "a.q_proj", "a", "re:.*q_proj"});
  EXPECT_EQ(rules.Find("a.q_proj"), 1);
  EXPECT_EQ(rules.Find("a.norm"), 3);
  EXPECT_EQ(rules.Find("b.norm"), -1);
  EXPECT_EQ(rules.Label(1), "exclude[1] \"*proj*\"");
}

TEST(NameRules, ReportsWhatMatchedNothing) {
  NameRules rules = Make(match::kExact | match::kGlob, {"a", "b", "a", "*x*", "c", "d", "e"});
  rules.Find("a");
  Problems problems;
  rules.Report(problems);
  EXPECT_THAT(problems.errors(), IsEmpty());
  // The second "a" is the same rule as the first.
  EXPECT_THAT(problems.warnings(),
              ElementsAre("5 of 7 entries of exclude match no module of this model: exclude[1] "
                          "\"b\", exclude[3] \"*x*\", exclude[4] \"c\" and 2 more"));
}

TEST(NameRules, ARuleShadowedByAnEarlierOneHasMatched) {
  NameRules rules = Make(match::kExact | match::kGlob, {"*", "a"});
  EXPECT_EQ(rules.Find("a"), 0);
  Problems problems;
  rules.Report(problems);
  EXPECT_THAT(problems.warnings(), IsEmpty());
}

TEST(NameRules, CostlyAndBadPatternsAreErrorsByName) {
  NameRules rules("exclude", match::kRegex);
  Problems problems;
  rules.Add("re:(a+)+$", problems);
  rules.Add("re:[", problems);
  EXPECT_EQ(rules.Find(std::string(60, 'a') + "b"), -1);
  rules.Report(problems);
  EXPECT_THAT(problems.errors(),
              ElementsAre(HasSubstr("exclude[1] \"re:[\": bad regular expression"),
                          HasSubstr("exclude[0] \"re:(a+)+$\": matching this pattern takes too")));
}

// With many patterns, only those that share a rare piece with the name are tried: same answers.
TEST(NameRules, ManyPatternsMatchAsFewDo) {
  std::vector<std::string> patterns;
  for (int layer = 0; layer < 100; ++layer) {
    patterns.push_back(fmt::format("*layers.{}.self_attn.q_a_proj", layer));
    patterns.push_back(fmt::format("layers.{}.mlp.experts.1", layer));
    patterns.push_back(fmt::format("*l?yers.{}.mlp.[gu]*_proj", layer));
  }
  NameRules rules = Make(match::kSubstring | match::kGlob, patterns);
  for (int layer = 0; layer < 110; ++layer) {
    for (const char* leaf : {"self_attn.q_a_proj", "mlp.experts.17.down_proj", "mlp.gate_proj",
                             "mlp.down_proj", "x"}) {
      const std::string name = fmt::format("model.layers.{}.{}", layer, leaf);
      int expected = -1;
      for (size_t i = 0; i < patterns.size() && expected < 0; ++i) {
        NameRules one = Make(match::kSubstring | match::kGlob, {patterns[i]});
        if (one.Find(name) == 0) expected = static_cast<int>(i);
      }
      EXPECT_EQ(rules.Find(name), expected) << name;
    }
  }
}

TEST(NameRules, ThousandsOfRulesAgainstAHundredThousandNamesTakeLittleTime) {
  std::vector<std::string> patterns;
  for (int e = 0; e < 2552; ++e) {
    patterns.push_back(fmt::format("model.layers.78.mlp.experts.{}.gate_proj", e));
  }
  for (int layer = 0; layer < 300; ++layer) {
    patterns.push_back(fmt::format("*layers.{}.self_attn.indexer*", layer));
  }
  for (const char* regex : {"re:.*mlp\\.gate$", "re:.*lm_head", "re:.*norm.*"})
    patterns.push_back(regex);
  NameRules rules = Make(
      match::kExact | match::kPrefix | match::kGlob | match::kGlobTree | match::kRegex, patterns);
  const auto start = std::chrono::steady_clock::now();
  int matched = 0;
  for (int layer = 0; layer < 79; ++layer) {
    for (int e = 0; e < 1300; ++e) {
      matched += rules.Find(fmt::format("model.layers.{}.mlp.experts.{}.gate_proj", layer, e)) >= 0;
    }
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_EQ(matched, 1300);
  EXPECT_LT(seconds, 5.0);  // a tenth of a second on an idle machine
}

TEST(NameRules, TooManyGeneralPatternsAreRefused) {
  NameRules rules("exclude", match::kGlob);
  Problems problems;
  for (int i = 0; i < 3000; ++i) rules.Add(fmt::format("*{}*", i), problems);
  EXPECT_THAT(problems.errors(), ElementsAre(HasSubstr("exclude has over 2000")));
}

}  // namespace
}  // namespace quern::checkpoint
