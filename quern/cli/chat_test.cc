#include "quern/cli/chat.h"

#include <gtest/gtest.h>

namespace quern::cli {
namespace {

void ExpectLine(std::string_view line, ChatLine::Kind kind, std::string_view text) {
  const ChatLine parsed = ParseChatLine(line);
  EXPECT_EQ(parsed.kind, kind) << line;
  EXPECT_EQ(parsed.text, text) << line;
}

TEST(ParseChatLine, QuestionsKeepTheirInside) {
  ExpectLine("How  are\tyou? ", ChatLine::Kind::kQuestion, "How  are\tyou?");
  ExpectLine("first\nsecond", ChatLine::Kind::kQuestion, "first\nsecond");
  ExpectLine("你好", ChatLine::Kind::kQuestion, "你好");
}

TEST(ParseChatLine, BlankLinesAskNothing) {
  ExpectLine("", ChatLine::Kind::kEmpty, "");
  ExpectLine(" \t ", ChatLine::Kind::kEmpty, "");
}

TEST(ParseChatLine, Commands) {
  ExpectLine("/reset", ChatLine::Kind::kReset, "");
  ExpectLine("/quit ", ChatLine::Kind::kQuit, "");
  ExpectLine("/exit", ChatLine::Kind::kQuit, "");
  ExpectLine("/help", ChatLine::Kind::kHelp, "");
  ExpectLine("/system  Be brief. ", ChatLine::Kind::kSystem, "Be brief.");
  ExpectLine("/system", ChatLine::Kind::kSystem, "");
  ExpectLine("/think off", ChatLine::Kind::kThink, "off");
}

TEST(ParseChatLine, UnknownCommandsAreNotSentToTheModel) {
  ExpectLine("/rest", ChatLine::Kind::kUnknown, "/rest");
  ExpectLine("/resetx now", ChatLine::Kind::kUnknown, "/resetx");
  ExpectLine("/", ChatLine::Kind::kUnknown, "/");
}

TEST(ParseChatLine, ASpaceInFrontMakesItAQuestion) {
  ExpectLine(" /reset what?", ChatLine::Kind::kQuestion, "/reset what?");
}

}  // namespace
}  // namespace quern::cli
