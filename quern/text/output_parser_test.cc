#include "quern/text/output_parser.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace quern::text {
namespace {

const Json kTools = ParseJson(R"([
  {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"},
                   "note": {"type": ["string", "null"]}, "tags": {"type": "array"}}}}},
  {"type": "function", "function": {"name": "now", "parameters": {}}}])")
                        .value();

OutputParserOptions Options(bool in_reasoning = false, bool tool_calls = true) {
  return {.starts_in_reasoning = in_reasoning, .parse_tool_calls = tool_calls, .tools = kTools};
}

std::string Call(const std::string& inside) { return "<tool_call>" + inside + "</tool_call>"; }
std::string Pair(const std::string& key, const std::string& value) {
  return "<arg_key>" + key + "</arg_key><arg_value>" + value + "</arg_value>";
}

// The arguments of the only call.
std::string Arguments(const std::string& inside) {
  const ParsedOutput output = ParseOutput(Call(inside), Options());
  EXPECT_EQ(output.tool_calls.size(), 1u);
  EXPECT_EQ(output.content, "");
  return output.tool_calls.empty() ? "" : output.tool_calls[0].arguments;
}

TEST(OutputParser, ReasoningThenContent) {
  const ParsedOutput output = ParseOutput("\nwhy?\n</think>\n\nbecause</think>", Options(true));
  EXPECT_EQ(output.reasoning, "\nwhy?\n");
  EXPECT_EQ(output.content, "\n\nbecause</think>");
}

TEST(OutputParser, WithoutReasoningEverythingIsContent) {
  EXPECT_EQ(ParseOutput("a<think>b</think>c", Options(false)).content, "a<think>b</think>c");
  OutputParserOptions raw = Options(true);
  raw.parse_reasoning = false;
  EXPECT_EQ(ParseOutput("a</think>b", raw).content, "a</think>b");
  EXPECT_EQ(ParseOutput("a", raw).reasoning, "");
}

TEST(OutputParser, ReasoningThatNeverEnds) {
  const ParsedOutput output = ParseOutput("so <thi </thin", Options(true));
  EXPECT_EQ(output.reasoning, "so <thi </thin");
  EXPECT_EQ(output.content, "");
}

TEST(OutputParser, ACallStraightOutOfReasoning) {
  const ParsedOutput output = ParseOutput("think" + Call("now") + " ", Options(true));
  EXPECT_EQ(output.reasoning, "think");
  EXPECT_EQ(output.content, "");
  ASSERT_EQ(output.tool_calls.size(), 1u);
  EXPECT_EQ(output.tool_calls[0].name, "now");
  EXPECT_EQ(output.tool_calls[0].arguments, "{}");
  // The reasoning parser ends there with or without tools; then the call is text.
  const ParsedOutput plain = ParseOutput("think" + Call("now"), Options(true, false));
  EXPECT_EQ(plain.reasoning, "think");
  EXPECT_EQ(plain.content, Call("now"));
}

TEST(OutputParser, TextBeforeCallsAndSeveralCalls) {
  const ParsedOutput output = ParseOutput(
      "Let me look.\n" + Call("get_weather" + Pair("city", "Paris") + Pair("days", "2")) + "\n" +
          Call(" now \n") + "\n",
      Options());
  EXPECT_EQ(output.content, "Let me look.\n");
  ASSERT_EQ(output.tool_calls.size(), 2u);
  EXPECT_EQ(output.tool_calls[0].name, "get_weather");
  EXPECT_EQ(output.tool_calls[0].arguments, R"({"city": "Paris", "days": 2})");
  EXPECT_EQ(output.tool_calls[1].name, "now");
  EXPECT_EQ(output.tool_calls[1].arguments, "{}");
}

TEST(OutputParser, TextAfterACallIsContent) {
  const ParsedOutput output =
      ParseOutput("a" + Call("now") + "\n b" + Call("now") + " c ", Options());
  EXPECT_EQ(output.content, "a\n b c ");
  EXPECT_EQ(output.tool_calls.size(), 2u);
}

TEST(OutputParser, WhiteSpaceAndLiteralBackslashNBetweenPairs) {
  EXPECT_EQ(Arguments("get_weather\n<arg_key>city</arg_key>\n<arg_value>a</arg_value>\n  "
                      "<arg_key>days</arg_key>\\n<arg_value>1</arg_value>\\n"),
            R"({"city": "a", "days": 1})");
  const ParsedOutput output = ParseOutput(Call("now\\n" + Pair("x", "1")), Options());
  EXPECT_EQ(output.tool_calls.at(0).name, "now");
}

TEST(OutputParser, ValuesEndAtTheFirstEndMarker) {
  EXPECT_EQ(
      Arguments("get_weather" + Pair("city", "a < b\n</arg_key><tool_call></tool_call> \"q\"")),
      R"({"city": "a < b\n</arg_key><tool_call></tool_call> \"q\""})");
  EXPECT_EQ(Arguments("get_weather" + Pair("city", " two  spaces ")),
            R"({"city": " two  spaces "})");
  EXPECT_EQ(Arguments("get_weather" + Pair("city", "")), R"({"city": ""})");
}

TEST(OutputParser, ValuesHaveTheirTypes) {
  EXPECT_EQ(Arguments("get_weather" + Pair("tags", "['a', True]") + Pair("note", "null")),
            R"({"tags": ["a", true], "note": null})");
  EXPECT_EQ(Arguments("get_weather" + Pair("note", "nullable")), R"({"note": "nullable"})");
  EXPECT_EQ(Arguments("unknown_tool" + Pair("k\"ey", "5") + Pair("t", "text")),
            R"({"k\"ey": 5, "t": "text"})");
}

TEST(OutputParser, StringValuesStream) {
  OutputParser parser(Options());
  parser.Push("<tool_call>get_weather<arg_key>city</arg_key>");
  EXPECT_EQ(parser.num_tool_calls(), 1);
  const auto one = [&](const char* text) {
    const auto deltas = parser.Push(text);
    return deltas.empty() ? std::string() : deltas.at(0).text;
  };
  EXPECT_EQ(one("<arg_value>Pa"), R"({"city": "Pa)");
  EXPECT_EQ(one("ris\n<"), "ris\\n");
  EXPECT_EQ(one("/arg_val"), "");
  EXPECT_EQ(one("ues"), "</arg_values");
  EXPECT_EQ(one("</arg_value>"), "\"");
  EXPECT_EQ(one("</tool_call>"), "}");
}

TEST(OutputParser, PartialMarkersAreWithheldUntilDecided) {
  OutputParser parser(Options());
  EXPECT_TRUE(parser.Push("<tool_c").empty());
  const auto deltas = parser.Push("ar>");
  ASSERT_EQ(deltas.size(), 1u);
  EXPECT_EQ(deltas[0].text, "<tool_car>");
  EXPECT_EQ(ParseOutput("x <tool_c", Options()).content, "x <tool_c");
  EXPECT_EQ(ParseOutput("x" + Call("now") + " <tool_c", Options()).content, "x <tool_c");
  // Without tools there is nothing to wait for.
  OutputParser plain(Options(false, false));
  EXPECT_EQ(plain.Push("<tool_c").at(0).text, "<tool_c");
}

TEST(OutputParser, TruncatedCallsAreClosed) {
  const auto cut = [](const std::string& text) {
    const ParsedOutput output = ParseOutput("<tool_call>" + text, Options());
    return output.tool_calls.empty() ? "text: " + output.content : output.tool_calls[0].arguments;
  };
  EXPECT_EQ(cut("get_wea"), "text: <tool_call>get_wea");
  EXPECT_EQ(cut("get_weather<arg_key>"), "{}");
  EXPECT_EQ(cut("get_weather<arg_key>city</arg_key>"), "{}");
  EXPECT_EQ(cut("get_weather<arg_key>city</arg_key><arg_value>"), R"({"city": ""})");
  EXPECT_EQ(cut("get_weather<arg_key>city</arg_key><arg_value>Par"), R"({"city": "Par"})");
  EXPECT_EQ(cut("get_weather<arg_key>days</arg_key><arg_value>1"), R"({"days": 1})");
  EXPECT_EQ(cut("get_weather<arg_key>tags</arg_key><arg_value>[1, "), R"({"tags": "[1, "})");
  EXPECT_EQ(cut("get_weather<arg_key>note</arg_key><arg_value>nul"), R"({"note": "nul"})");
  EXPECT_EQ(cut("get_weather" + Pair("city", "x")), R"({"city": "x"})");
}

TEST(OutputParser, BrokenGrammarIsReadAsFarAsItGoes) {
  EXPECT_EQ(Arguments("get_weather<arg_key>days</arg_key>" + Pair("city", "x")),
            R"({"city": "x"})");
  EXPECT_EQ(Arguments("get_weather<arg_key>city<arg_value>x</arg_value>"), R"({"city": "x"})");
  EXPECT_EQ(Arguments("get_weather" + Pair("city", "x") + "</arg_value>junk"), R"({"city": "x"})");
  EXPECT_EQ(Arguments("get_weather<arg_key>city"), "{}");
  const ParsedOutput unclosed =
      ParseOutput("<tool_call>now" + Pair("a", "1") + Call("now"), Options());
  ASSERT_EQ(unclosed.tool_calls.size(), 2u);
  EXPECT_EQ(unclosed.tool_calls[0].arguments, R"({"a": 1})");
  EXPECT_EQ(unclosed.tool_calls[1].arguments, "{}");
}

TEST(OutputParser, ACallWithoutANameIsText) {
  for (const std::string& text : {Call(""), Call(" \n"), Call(Pair("a", "1")),
                                  "<tool_call>" + std::string(5000, 'x') + "</tool_call>"}) {
    const ParsedOutput output = ParseOutput(text, Options());
    EXPECT_EQ(output.content, text);
    EXPECT_TRUE(output.tool_calls.empty());
  }
}

TEST(OutputParser, HalfCharactersWait) {
  OutputParser parser(Options());
  EXPECT_TRUE(parser.Push("\xF0\x9F").empty());
  EXPECT_EQ(parser.Push("\x99\x82").at(0).text, "\xF0\x9F\x99\x82");
  EXPECT_TRUE(parser.Push("\xC3").empty());
  EXPECT_EQ(parser.Finish().at(0).text, "\xEF\xBF\xBD");
}

// Each push may look only at new text, or long values would cost the square of their length.
TEST(OutputParser, LongOutputsTakeLinearTime) {
  const auto start = std::chrono::steady_clock::now();
  OutputParser parser(Options());
  parser.Push("<tool_call>get_weather<arg_key>tags</arg_key><arg_value>");
  for (int i = 0; i < 400000; ++i) parser.Push("< 12");
  parser.Push("</arg_value></tool_call>");
  std::string calls;
  for (int i = 0; i < 20000; ++i) calls += Call("now" + Pair("a", "1"));
  EXPECT_EQ(ParseOutput(calls, Options()).tool_calls.size(), 20000u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace quern::text
