// Model output to reasoning, content and tool calls, while it streams. Grammar:
// docs/formats/glm-chat.md.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "quern/base/json.h"

namespace quern::text {

// A piece of an OpenAI delta. Joined over a whole stream, pieces of one kind give the non-streamed
// value, whatever the chunking: reasoning and content by concatenation, arguments of tool call
// `index` by concatenation (valid JSON at the end of the call).
struct OutputDelta {
  enum class Kind { kReasoning, kContent, kToolCallBegin, kToolCallArguments } kind;
  std::string text;  // reasoning, content, the function's name (kToolCallBegin), or a piece of its
                     // arguments
  int tool_index = 0;  // 0-based, for the two tool kinds
};

struct OutputParserOptions {
  bool parse_reasoning = true;
  bool starts_in_reasoning = false;  // the prompt ended in <think>
  bool parse_tool_calls = false;     // the request has tools and tool_choice is not "none"
  Json tools = Json::array();  // OpenAI tool objects: parameter schemas decide how values are typed
};

// One per choice; not thread-safe.
class OutputParser {
 public:
  explicit OutputParser(OutputParserOptions options);
  ~OutputParser();

  // Feeds text in pieces of any size (whole UTF-8 characters).
  std::vector<OutputDelta> Push(std::string_view text);
  // The end of output. A call cut off before </tool_call> is closed so that its arguments are valid
  // JSON.
  std::vector<OutputDelta> Finish();
  // Tool calls begun so far.
  int num_tool_calls() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The same for a whole text at once: Push(text) then Finish(), joined.
struct ParsedOutput {
  std::string reasoning;
  std::string content;
  struct ToolCall {
    std::string name;
    std::string arguments;  // a JSON object
  };
  std::vector<ToolCall> tool_calls;
};
ParsedOutput ParseOutput(std::string_view text, const OutputParserOptions& options);

}  // namespace quern::text
