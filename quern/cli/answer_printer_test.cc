#include "quern/cli/answer_printer.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <utility>

namespace quern::cli {
namespace {

using Kind = text::OutputDelta::Kind;

std::string PrintAll(ReasoningStyle style,
                     std::initializer_list<std::pair<Kind, const char*>> deltas) {
  AnswerPrinter printer(style);
  std::string out;
  for (const auto& [kind, text] : deltas) out += printer.Push({kind, text});
  return out + printer.Finish();
}

TEST(AnswerPrinter, DimsReasoningAndSetsTheAnswerApart) {
  EXPECT_EQ(PrintAll(ReasoningStyle::kDim, {{Kind::kReasoning, "let "},
                                            {Kind::kReasoning, "me see"},
                                            {Kind::kContent, "\n\nYes"},
                                            {Kind::kContent, "."}}),
            "\033[2mlet me see\033[0m\n\nYes.\n");
}

TEST(AnswerPrinter, MarksReasoningWithoutColour) {
  EXPECT_EQ(
      PrintAll(ReasoningStyle::kMarked, {{Kind::kReasoning, "hm\n"}, {Kind::kContent, "Yes"}}),
      "[reasoning]\nhm\n[answer]\nYes\n");
}

TEST(AnswerPrinter, HidesReasoning) {
  EXPECT_EQ(
      PrintAll(ReasoningStyle::kHidden, {{Kind::kReasoning, "hm"}, {Kind::kContent, "\nYes\n"}}),
      "Yes\n");
}

TEST(AnswerPrinter, ReasoningCutOffIsClosed) {
  EXPECT_EQ(PrintAll(ReasoningStyle::kDim, {{Kind::kReasoning, "hm"}}), "\033[2mhm\033[0m\n");
  EXPECT_EQ(PrintAll(ReasoningStyle::kHidden, {{Kind::kReasoning, "hm"}}), "");
}

TEST(AnswerPrinter, ContentAloneNeedsNoMark) {
  EXPECT_EQ(PrintAll(ReasoningStyle::kMarked, {{Kind::kContent, "a\n\nb"}}), "a\n\nb\n");
}

TEST(AnswerPrinter, NothingGivesNothing) {
  EXPECT_EQ(PrintAll(ReasoningStyle::kMarked, {{Kind::kContent, "\n"}}), "");
}

}  // namespace
}  // namespace quern::cli
