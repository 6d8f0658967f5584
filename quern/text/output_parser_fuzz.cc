// Streamed deltas must join to the whole parse, and arguments must be JSON objects, whatever the
// bytes.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "quern/base/check.h"
#include "quern/text/output_parser.h"

namespace {

using quern::text::OutputDelta;
using quern::text::ParsedOutput;

const quern::Json& Tools() {
  static const quern::Json tools = quern::ParseJson(R"([
    {"type": "function", "function": {"name": "f", "parameters": {"properties": {
      "s": {"type": "string"}, "n": {"type": "number"}, "o": {"type": "object"},
      "m": {"type": ["string", "null"]}, "u": {"anyOf": [{"type": "string"}, {"type": "array"}]}}}}}])")
                                       .value();
  return tools;
}

void Add(const std::vector<OutputDelta>& deltas, ParsedOutput& output) {
  for (const OutputDelta& delta : deltas) {
    const size_t index = static_cast<size_t>(delta.tool_index);
    switch (delta.kind) {
      case OutputDelta::Kind::kReasoning:
        output.reasoning += delta.text;
        break;
      case OutputDelta::Kind::kContent:
        output.content += delta.text;
        break;
      case OutputDelta::Kind::kToolCallBegin:
        QUERN_CHECK(index == output.tool_calls.size());
        output.tool_calls.push_back({delta.text, ""});
        break;
      case OutputDelta::Kind::kToolCallArguments:
        QUERN_CHECK(index + 1 == output.tool_calls.size());
        output.tool_calls[index].arguments += delta.text;
        break;
    }
  }
}

}  // namespace

// The first byte holds the options, the second how the rest is cut.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const quern::text::OutputParserOptions options = {.parse_reasoning = (data[0] & 1) == 0,
                                                    .starts_in_reasoning = (data[0] & 2) != 0,
                                                    .parse_tool_calls = (data[0] & 4) == 0,
                                                    .tools = Tools()};
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const ParsedOutput whole = quern::text::ParseOutput(text, options);

  quern::text::OutputParser parser(options);
  ParsedOutput streamed;
  uint32_t cut = data[1];
  for (size_t at = 0; at < text.size();) {
    cut = cut * 1664525u + 1013904223u;
    const size_t length = std::min<size_t>(text.size() - at, cut >> 24 & 15);
    Add(parser.Push(text.substr(at, length)), streamed);
    at += length;
  }
  Add(parser.Finish(), streamed);

  QUERN_CHECK(streamed.reasoning == whole.reasoning);
  QUERN_CHECK(streamed.content == whole.content);
  QUERN_CHECK(streamed.tool_calls.size() == whole.tool_calls.size());
  for (size_t i = 0; i < whole.tool_calls.size(); ++i) {
    QUERN_CHECK(streamed.tool_calls[i].name == whole.tool_calls[i].name);
    QUERN_CHECK(streamed.tool_calls[i].arguments == whole.tool_calls[i].arguments);
    const auto json = quern::ParseJson(whole.tool_calls[i].arguments);
    QUERN_CHECK(json.ok() && json->is_object(), "{}", whole.tool_calls[i].arguments);
  }
  return 0;
}
