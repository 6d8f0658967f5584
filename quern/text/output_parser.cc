#include "quern/text/output_parser.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "quern/text/argument_type.h"
#include "quern/text/marker.h"
#include "quern/text/python_literal.h"
#include "quern/text/utf8.h"

namespace quern::text {
namespace {

constexpr std::string_view kThinkEnd = "</think>";
constexpr std::string_view kCallBegin = "<tool_call>";
constexpr std::string_view kCallEnd = "</tool_call>";
constexpr std::string_view kKeyBegin = "<arg_key>";
constexpr std::string_view kKeyEnd = "</arg_key>";
constexpr std::string_view kValueBegin = "<arg_value>";
constexpr std::string_view kValueEnd = "</arg_value>";
constexpr size_t kLongestMarker = kCallEnd.size();

constexpr std::string_view kSpace = " \t\r\n";
// A "<tool_call>" with no name in this many bytes was text about tool calls, not a call.
constexpr size_t kMaxNameBytes = 1024;

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// Trims white space, and the backslash and n that some models write for a line break.
std::string_view TrimName(std::string_view text) {
  text = Trim(text);
  while (text.size() >= 2 && text.substr(text.size() - 2) == "\\n") {
    text = Trim(text.substr(0, text.size() - 2));
  }
  return text;
}

}  // namespace

// A state machine over the held text, the part of the output that is not yet decided. Each Step
// either consumes decided text from its front or reports that more is needed, and looks at nothing
// but the text itself: so the result can't depend on how the text was cut.
struct OutputParser::Impl {
  enum class State {
    kReasoning,
    kContent,
    kName,           // after <tool_call>
    kPairs,          // between the pairs of a call
    kKey,            // after <arg_key>
    kBeforeValue,    // after </arg_key>
    kStringValue,    // after <arg_value>, streamed
    kNullableValue,  // after <arg_value>: a string, unless it turns out to be all of "null"
    kTypedValue,     // after <arg_value>, kept until complete
    kAfterCall,      // white space between calls is dropped
  };

  explicit Impl(OutputParserOptions opts)
      : options(std::move(opts)),
        state(options.parse_reasoning && options.starts_in_reasoning ? State::kReasoning
                                                                     : State::kContent) {}

  std::vector<OutputDelta> Push(std::string_view text);
  std::vector<OutputDelta> Finish();

  bool Step();
  bool StepReasoning();
  bool StepContent();
  bool StepName();
  bool StepPairs();
  bool StepKey();
  bool StepBeforeValue();
  bool StepStringValue();
  bool StepNullableValue();
  bool StepTypedValue();
  bool StepAfterCall();
  void FinishCall();

  struct Found {
    size_t at = std::string::npos;
    std::string_view marker;
  };
  Found FindFirst(std::initializer_list<std::string_view> markers);
  // The text that is not yet decided.
  std::string_view Held() const { return std::string_view(held).substr(begin); }
  std::string Consume(size_t count);
  void Enter(State next) {
    state = next;
    scanned = 0;
  }
  void Emit(OutputDelta::Kind kind, std::string text);
  void BeginValue();
  void EndCall();
  void NotACall();

  OutputParserOptions options;
  State state;
  std::string partial_character;  // bytes of a character cut in two by a caller
  std::string held;
  size_t begin = 0;    // held[0, begin) is consumed; erased once per Push, not once per marker
  size_t scanned = 0;  // no marker begins in Held()[0, scanned)
  std::vector<OutputDelta> deltas;
  int num_calls = 0;
  int num_pairs = 0;  // of the present call
  std::string name, key;
};

std::vector<OutputDelta> OutputParser::Impl::Push(std::string_view text) {
  partial_character += text;
  TakeUtf8(partial_character, held);
  while (Step()) {
  }
  held.erase(0, begin);
  begin = 0;
  return std::exchange(deltas, {});
}

std::vector<OutputDelta> OutputParser::Impl::Finish() {
  if (!partial_character.empty()) held += kReplacementCharacter;
  partial_character.clear();
  while (Step()) {
  }
  while (state == State::kName) {
    NotACall();  // nobody knows what was to be called; the text is all there is to show
    while (Step()) {
    }
  }
  if (state == State::kReasoning) {
    Emit(OutputDelta::Kind::kReasoning, Consume(Held().size()));
  } else if (state == State::kContent) {
    Emit(OutputDelta::Kind::kContent, Consume(Held().size()));
  } else if (state == State::kAfterCall) {
    std::string rest = Consume(Held().size());
    if (!Trim(rest).empty()) Emit(OutputDelta::Kind::kContent, std::move(rest));
  } else {
    FinishCall();
  }
  return std::exchange(deltas, {});
}

// Runs one state's rule; false when it needs more text.
bool OutputParser::Impl::Step() {
  switch (state) {
    case State::kReasoning:
      return StepReasoning();
    case State::kContent:
      return StepContent();
    case State::kName:
      return StepName();
    case State::kPairs:
      return StepPairs();
    case State::kKey:
      return StepKey();
    case State::kBeforeValue:
      return StepBeforeValue();
    case State::kStringValue:
      return StepStringValue();
    case State::kNullableValue:
      return StepNullableValue();
    case State::kTypedValue:
      return StepTypedValue();
    case State::kAfterCall:
      return StepAfterCall();
  }
  return false;
}

// The first of `markers` in the held text, searching only what earlier calls in this state have not
// seen.
OutputParser::Impl::Found OutputParser::Impl::FindFirst(
    std::initializer_list<std::string_view> markers) {
  const std::string_view text = Held();
  for (size_t at = text.find('<', scanned); at != std::string_view::npos;
       at = text.find('<', at + 1)) {
    for (const std::string_view marker : markers) {
      if (text.substr(at, marker.size()) == marker) return {at, marker};
    }
  }
  scanned = text.size() - std::min(text.size(), kLongestMarker - 1);
  return {};
}

std::string OutputParser::Impl::Consume(size_t count) {
  std::string text(Held().substr(0, count));
  begin += text.size();
  scanned -= std::min(scanned, text.size());
  return text;
}

// Joins text to the last delta when it is of the same kind and call.
void OutputParser::Impl::Emit(OutputDelta::Kind kind, std::string text) {
  if (text.empty()) return;
  const bool of_call = kind == OutputDelta::Kind::kToolCallArguments;
  if (!deltas.empty() && deltas.back().kind == kind) {
    deltas.back().text += text;
    return;
  }
  deltas.push_back({kind, std::move(text), of_call ? num_calls - 1 : 0});
}

bool OutputParser::Impl::StepReasoning() {
  const Found found = FindFirst({kThinkEnd, kCallBegin});
  if (found.at == std::string::npos) {
    const size_t partial =
        std::max(PartialMarkerLength(Held(), kThinkEnd), PartialMarkerLength(Held(), kCallBegin));
    Emit(OutputDelta::Kind::kReasoning, Consume(Held().size() - partial));
    return false;
  }
  Emit(OutputDelta::Kind::kReasoning, Consume(found.at));
  // A call straight out of reasoning ends it too; its marker stays for the next state to read.
  if (found.marker == kThinkEnd) Consume(kThinkEnd.size());
  Enter(State::kContent);
  return true;
}

bool OutputParser::Impl::StepContent() {
  if (!options.parse_tool_calls) {
    Emit(OutputDelta::Kind::kContent, Consume(Held().size()));
    return false;
  }
  const Found found = FindFirst({kCallBegin});
  if (found.at == std::string::npos) {
    Emit(OutputDelta::Kind::kContent,
         Consume(Held().size() - PartialMarkerLength(Held(), kCallBegin)));
    return false;
  }
  Emit(OutputDelta::Kind::kContent, Consume(found.at));
  Consume(kCallBegin.size());
  Enter(State::kName);
  return true;
}

bool OutputParser::Impl::StepName() {
  const Found found = FindFirst({kKeyBegin, kCallEnd});
  if (found.at == std::string::npos) {
    if (Held().size() <= kMaxNameBytes + kLongestMarker) return false;
    NotACall();
    return true;
  }
  name = TrimName(Held().substr(0, found.at));
  if (name.empty() || found.at > kMaxNameBytes) {
    NotACall();
    return true;
  }
  Consume(found.at);
  deltas.push_back({OutputDelta::Kind::kToolCallBegin, name, num_calls++});
  num_pairs = 0;
  Enter(State::kPairs);
  return true;
}

// What is neither a pair nor the end is no part of the grammar: white space as a rule. A second
// <tool_call> means that the end of this call was forgotten.
bool OutputParser::Impl::StepPairs() {
  const Found found = FindFirst({kKeyBegin, kCallEnd, kCallBegin});
  if (found.at == std::string::npos) return false;
  Consume(found.at);
  if (found.marker == kCallBegin) {
    EndCall();
    return true;
  }
  Consume(found.marker.size());
  if (found.marker == kKeyBegin) {
    Enter(State::kKey);
  } else {
    EndCall();
  }
  return true;
}

bool OutputParser::Impl::StepKey() {
  const Found found = FindFirst({kKeyEnd, kValueBegin, kCallEnd});
  if (found.at == std::string::npos) return false;
  key = Trim(Held().substr(0, found.at));
  Consume(found.at);
  if (found.marker == kCallEnd) {  // no value ever came
    Enter(State::kPairs);
    return true;
  }
  if (found.marker == kKeyEnd) Consume(kKeyEnd.size());
  Enter(State::kBeforeValue);
  return true;
}

bool OutputParser::Impl::StepBeforeValue() {
  const Found found = FindFirst({kValueBegin, kKeyBegin, kCallEnd, kCallBegin});
  if (found.at == std::string::npos) return false;
  Consume(found.at);
  if (found.marker == kValueBegin) {
    Consume(kValueBegin.size());
    BeginValue();
  } else {
    Enter(State::kPairs);
  }
  return true;
}

// Writes the key, and decides by its type whether the value streams.
void OutputParser::Impl::BeginValue() {
  std::string json = num_pairs++ == 0 ? "{\"" : ", \"";
  AppendJsonEscaped(key, json);
  json += "\": ";
  const ArgumentType type = FindArgumentType(options.tools, name, key);
  if (type.IsString()) {
    json += '"';
    Enter(State::kStringValue);
  } else {
    Enter(type.IsNullableString() ? State::kNullableValue : State::kTypedValue);
  }
  Emit(OutputDelta::Kind::kToolCallArguments, std::move(json));
}

bool OutputParser::Impl::StepStringValue() {
  const Found found = FindFirst({kValueEnd});
  const bool complete = found.at != std::string::npos;
  const size_t length =
      complete ? found.at : Held().size() - PartialMarkerLength(Held(), kValueEnd);
  std::string json;
  AppendJsonEscaped(Consume(length), json);
  if (complete) {
    json += '"';
    Consume(kValueEnd.size());
    Enter(State::kPairs);
  }
  Emit(OutputDelta::Kind::kToolCallArguments, std::move(json));
  return complete;
}

bool OutputParser::Impl::StepNullableValue() {
  constexpr std::string_view kNull = "null";
  const std::string_view whole_null = "null</arg_value>";
  if (Held().size() < whole_null.size() && whole_null.substr(0, Held().size()) == Held())
    return false;
  if (Held().substr(0, whole_null.size()) == whole_null) {
    Consume(whole_null.size());
    Emit(OutputDelta::Kind::kToolCallArguments, std::string(kNull));
    Enter(State::kPairs);
    return true;
  }
  Emit(OutputDelta::Kind::kToolCallArguments, "\"");
  Enter(State::kStringValue);
  return true;
}

bool OutputParser::Impl::StepTypedValue() {
  const Found found = FindFirst({kValueEnd});
  if (found.at == std::string::npos) return false;
  const ArgumentType type = FindArgumentType(options.tools, name, key);
  Emit(OutputDelta::Kind::kToolCallArguments, ArgumentToJson(Consume(found.at), type));
  Consume(kValueEnd.size());
  Enter(State::kPairs);
  return true;
}

bool OutputParser::Impl::StepAfterCall() {
  const size_t text = Held().find_first_not_of(kSpace, scanned);
  scanned = std::min(text, Held().size());
  if (text == std::string_view::npos) return false;
  const std::string_view rest = Held().substr(text);
  if (rest.size() < kCallBegin.size() && kCallBegin.substr(0, rest.size()) == rest) return false;
  if (rest.substr(0, kCallBegin.size()) == kCallBegin) Consume(text);
  Enter(State::kContent);
  return true;
}

// A "<tool_call>" that begins no call is text like any other.
void OutputParser::Impl::NotACall() {
  Emit(OutputDelta::Kind::kContent, std::string(kCallBegin));
  Enter(State::kContent);
}

void OutputParser::Impl::EndCall() {
  Emit(OutputDelta::Kind::kToolCallArguments, num_pairs == 0 ? "{}" : "}");
  Enter(State::kAfterCall);
}

// The output ended inside a call: a begun value ends where the text does, a key without a value is
// dropped.
void OutputParser::Impl::FinishCall() {
  if (state == State::kStringValue) {
    std::string json;
    AppendJsonEscaped(Consume(Held().size()), json);
    Emit(OutputDelta::Kind::kToolCallArguments, json + '"');
  } else if (state == State::kTypedValue || state == State::kNullableValue) {
    const ArgumentType type = FindArgumentType(options.tools, name, key);
    Emit(OutputDelta::Kind::kToolCallArguments, ArgumentToJson(Consume(Held().size()), type));
  }
  EndCall();
}

OutputParser::OutputParser(OutputParserOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
OutputParser::~OutputParser() = default;

std::vector<OutputDelta> OutputParser::Push(std::string_view text) { return impl_->Push(text); }
std::vector<OutputDelta> OutputParser::Finish() { return impl_->Finish(); }
int OutputParser::num_tool_calls() const { return impl_->num_calls; }

ParsedOutput ParseOutput(std::string_view text, const OutputParserOptions& options) {
  OutputParser parser(options);
  std::vector<OutputDelta> deltas = parser.Push(text);
  for (OutputDelta& delta : parser.Finish()) deltas.push_back(std::move(delta));
  ParsedOutput output;
  for (OutputDelta& delta : deltas) {
    switch (delta.kind) {
      case OutputDelta::Kind::kReasoning:
        output.reasoning += delta.text;
        break;
      case OutputDelta::Kind::kContent:
        output.content += delta.text;
        break;
      case OutputDelta::Kind::kToolCallBegin:
        output.tool_calls.push_back({std::move(delta.text), ""});
        break;
      case OutputDelta::Kind::kToolCallArguments:
        output.tool_calls[static_cast<size_t>(delta.tool_index)].arguments += delta.text;
        break;
    }
  }
  return output;
}

}  // namespace quern::text
