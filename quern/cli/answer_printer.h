// Prints an answer while it streams: reasoning dimmed, marked or left out, then the content.
#pragma once

#include <string>
#include <string_view>

#include "quern/text/output_parser.h"

namespace quern::cli {

enum class ReasoningStyle {
  kDim,     // ANSI dim, for terminals
  kMarked,  // between lines "[reasoning]" and "[answer]", where colour is not wanted
  kHidden,  // content only, for pipes
};

// One per answer. Push returns what to write next, so that a test needs no terminal.
class AnswerPrinter {
 public:
  explicit AnswerPrinter(ReasoningStyle style) : style_(style) {}

  std::string Push(const text::OutputDelta& delta);
  // Closes what is open; the output then ends with a newline (unless nothing was printed).
  std::string Finish();

 private:
  enum class Part { kNone, kReasoning, kContent };
  std::string Enter(Part part);

  ReasoningStyle style_;
  Part part_ = Part::kNone;
  bool at_content_start_ = true;  // blank lines between </think> and the content are not shown
  bool printed_ = false;
  bool ends_in_newline_ = false;
};

}  // namespace quern::cli
