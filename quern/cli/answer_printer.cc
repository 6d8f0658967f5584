#include "quern/cli/answer_printer.h"

namespace quern::cli {
namespace {
constexpr std::string_view kDimOn = "\033[2m";
constexpr std::string_view kDimOff = "\033[0m";
}  // namespace

std::string AnswerPrinter::Enter(Part part) {
  if (part == part_) return "";
  std::string out;
  const Part before = part_;
  part_ = part;
  if (before == Part::kReasoning) {
    if (style_ == ReasoningStyle::kDim) out += kDimOff;
    if (!ends_in_newline_) out += '\n';
    out += style_ == ReasoningStyle::kMarked && part == Part::kContent ? "[answer]\n" : "\n";
  }
  if (part == Part::kReasoning) {
    out += style_ == ReasoningStyle::kDim ? kDimOn : "[reasoning]\n";
  }
  return out;
}

std::string AnswerPrinter::Push(const text::OutputDelta& delta) {
  using Kind = text::OutputDelta::Kind;
  std::string_view text = delta.text;
  if (delta.kind == Kind::kReasoning) {
    if (style_ == ReasoningStyle::kHidden || text.empty()) return "";
  } else if (at_content_start_) {
    while (!text.empty() && text.front() == '\n') text.remove_prefix(1);
    if (text.empty()) return "";
    at_content_start_ = false;
  }
  if (text.empty()) return "";
  std::string out = Enter(delta.kind == Kind::kReasoning ? Part::kReasoning : Part::kContent);
  out += text;
  printed_ = true;
  ends_in_newline_ = out.back() == '\n';
  return out;
}

std::string AnswerPrinter::Finish() {
  if (!printed_) return "";
  std::string out;
  if (part_ == Part::kReasoning && style_ == ReasoningStyle::kDim) out += kDimOff;
  if (!ends_in_newline_) out += '\n';
  return out;
}

}  // namespace quern::cli
