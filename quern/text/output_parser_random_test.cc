// 10^5 random outputs under random chunkings: what streams must join to what a whole parse gives.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "quern/text/output_parser.h"
#include "quern/text/utf8.h"

namespace quern::text {
namespace {

const Json kTools = ParseJson(R"([
  {"type": "function", "function": {"name": "f", "parameters": {"properties": {
    "s": {"type": "string"}, "n": {"type": "number"}, "o": {"type": "object"},
    "m": {"type": ["string", "null"]}, "u": {"anyOf": [{"type": "string"}, {"type": "array"}]}}}}}])")
                        .value();

class Random {
 public:
  explicit Random(uint32_t seed) : rng_(seed) {}
  size_t Below(size_t n) { return rng_() % n; }
  bool Chance(size_t one_in) { return Below(one_in) == 0; }
  template <typename List>
  const auto& Pick(const List& list) {
    return list[Below(std::size(list))];
  }

 private:
  std::mt19937 rng_;
};

// Markers, halves of markers, values of every type, and characters of one to four bytes.
const char* const kPieces[] = {
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "<tool_call>f",
    "<tool_call>f<arg_key>s</arg_key><arg_value>",
    "<arg_key>n</arg_key>\n<arg_value>1.5</arg_value>",
    "<arg_key>m</arg_key><arg_value>null",
    "<arg_key>o</arg_key>\\n<arg_value>{'a': True}",
    "<tool_c",
    "</tool",
    "<arg_",
    "</arg_value",
    "</thi",
    "<",
    "</",
    ">",
    "<<",
    "f",
    "s",
    "n",
    "unknown",
    " ",
    "\n",
    "\\n",
    "\"",
    "\\",
    "'",
    "null",
    "nul",
    "None",
    "True",
    "12",
    "[1, 2]",
    "{\"a\": \"b\"}",
    "{\\\"a\\\": 1}",
    "\xC3\xA9",
    "\xE4\xBD\xA0",
    "\xF0\x9F\x99\x82",
    "text",
    "\t",
    "\x01",
};

std::string RandomText(Random& random) {
  std::string text;
  for (size_t n = random.Below(16); n > 0; --n) {
    text += random.Pick(kPieces);
    if (random.Chance(64)) text += '\0';
  }
  if (random.Chance(4) && !text.empty()) text.resize(random.Below(text.size()));
  return text;
}

OutputParserOptions RandomOptions(Random& random) {
  return {.parse_reasoning = !random.Chance(5),
          .starts_in_reasoning = random.Chance(2),
          .parse_tool_calls = !random.Chance(4),
          .tools = random.Chance(6) ? Json::array() : kTools};
}

ParsedOutput Join(const std::vector<OutputDelta>& deltas) {
  ParsedOutput output;
  for (const OutputDelta& delta : deltas) {
    EXPECT_FALSE(delta.text.empty());
    switch (delta.kind) {
      case OutputDelta::Kind::kReasoning:
        output.reasoning += delta.text;
        break;
      case OutputDelta::Kind::kContent:
        output.content += delta.text;
        break;
      case OutputDelta::Kind::kToolCallBegin:
        EXPECT_EQ(static_cast<size_t>(delta.tool_index), output.tool_calls.size());
        output.tool_calls.push_back({delta.text, ""});
        break;
      case OutputDelta::Kind::kToolCallArguments:
        EXPECT_EQ(static_cast<size_t>(delta.tool_index) + 1, output.tool_calls.size());
        output.tool_calls.back().arguments += delta.text;
        break;
    }
  }
  return output;
}

ParsedOutput Stream(const std::string& text, const OutputParserOptions& options, Random& random) {
  OutputParser parser(options);
  std::vector<OutputDelta> all;
  const auto take = [&](std::vector<OutputDelta> deltas) {
    all.insert(all.end(), deltas.begin(), deltas.end());
  };
  const size_t longest = random.Chance(3) ? 1 : 1 + random.Below(24);
  for (size_t at = 0; at < text.size();) {
    const size_t length = std::min(text.size() - at, random.Below(longest + 1));
    take(parser.Push(std::string_view(text).substr(at, length)));
    at += length;
  }
  take(parser.Finish());
  EXPECT_EQ(static_cast<size_t>(parser.num_tool_calls()), Join(all).tool_calls.size());
  return Join(all);
}

void ExpectEqual(const ParsedOutput& streamed, const ParsedOutput& whole) {
  EXPECT_EQ(streamed.reasoning, whole.reasoning);
  EXPECT_EQ(streamed.content, whole.content);
  ASSERT_EQ(streamed.tool_calls.size(), whole.tool_calls.size());
  for (size_t i = 0; i < whole.tool_calls.size(); ++i) {
    EXPECT_EQ(streamed.tool_calls[i].name, whole.tool_calls[i].name);
    EXPECT_EQ(streamed.tool_calls[i].arguments, whole.tool_calls[i].arguments);
  }
}

TEST(OutputParserRandom, StreamedJoinsToWhole) {
  Random random(2024);
  for (int round = 0; round < 80000 && !testing::Test::HasFailure(); ++round) {
    const std::string text = RandomText(random);
    const OutputParserOptions options = RandomOptions(random);
    SCOPED_TRACE("round " + std::to_string(round) + ": " + text);
    const ParsedOutput whole = ParseOutput(text, options);
    ExpectEqual(Stream(text, options, random), whole);
    for (const auto& call : whole.tool_calls) {
      EXPECT_FALSE(call.name.empty());
      const Result<Json> arguments = ParseJson(call.arguments);
      EXPECT_TRUE(arguments.ok() && arguments->is_object()) << call.arguments;
    }
    if (!options.parse_tool_calls && !text.empty()) {
      // Nothing but the one end-of-reasoning marker may be lost.
      const size_t shown = whole.reasoning.size() + whole.content.size();
      std::string rest = text, valid;
      TakeUtf8(rest, valid);
      const size_t lost = rest.empty() ? text.size() - shown : 0;
      EXPECT_TRUE(lost == 0 || lost == 8) << lost;
    }
  }
}

// Well-formed output whose parse is known beforehand.
struct Known {
  std::string text;
  ParsedOutput parse;
};

std::string PlainText(Random& random) {
  static const char* const kPlain[] = {
      "a",  " ",  "\n", "<",          "</",        "arg", "\xE4\xBD\xA0", "\xF0\x9F\x99\x82",
      "\"", "\\", "{",  "</arg_key>", "tool_call", "0"};
  std::string text;
  for (size_t n = random.Below(8); n > 0; --n) text += random.Pick(kPlain);
  return text;
}

std::string Quoted(const std::string& text) { return DumpJson(Json(text)); }

Known RandomKnown(Random& random, bool in_reasoning) {
  Known known;
  if (in_reasoning) {
    known.parse.reasoning = PlainText(random);
    known.text = known.parse.reasoning + "</think>";
  }
  known.parse.content = PlainText(random);
  known.text += known.parse.content;
  for (size_t calls = random.Below(4); calls > 0; --calls) {
    known.text += "<tool_call>f";
    std::string arguments;
    for (size_t pairs = random.Below(4); pairs > 0; --pairs) {
      const bool is_string = random.Chance(2);
      const std::string value = is_string ? PlainText(random) : random.Chance(2) ? "-1.50" : "true";
      arguments += arguments.empty() ? "{" : ", ";
      arguments += is_string ? "\"s\": " + Quoted(value) : "\"n\": " + value;
      known.text += std::string("<arg_key>") + (is_string ? "s" : "n") + "</arg_key>" +
                    (random.Chance(3) ? "\n" : "") + "<arg_value>" + value + "</arg_value>";
    }
    known.text += "</tool_call>";
    if (random.Chance(3)) known.text += "\n";
    known.parse.tool_calls.push_back({"f", arguments.empty() ? "{}" : arguments + "}"});
  }
  return known;
}

TEST(OutputParserRandom, WellFormedOutputGivesWhatItWasMadeOf) {
  Random random(77);
  for (int round = 0; round < 20000 && !testing::Test::HasFailure(); ++round) {
    const bool in_reasoning = random.Chance(2);
    const Known known = RandomKnown(random, in_reasoning);
    SCOPED_TRACE("round " + std::to_string(round) + ": " + known.text);
    const OutputParserOptions options = {
        .starts_in_reasoning = in_reasoning, .parse_tool_calls = true, .tools = kTools};
    ExpectEqual(Stream(known.text, options, random), known.parse);
  }
}

}  // namespace
}  // namespace quern::text
