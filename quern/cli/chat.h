// `quern chat MODEL`: a conversation in the terminal, or line by line from a pipe.
#pragma once

#include <string>
#include <string_view>

#include "quern/cli/command.h"

namespace quern::cli {

void AddChatCommand(CLI::App& app, CommandResult& result);

// One line of input, understood.
struct ChatLine {
  enum class Kind { kEmpty, kQuestion, kHelp, kReset, kQuit, kSystem, kThink, kUnknown };
  Kind kind = Kind::kEmpty;
  std::string text;  // the question, the system prompt, "on" or "off", or the unknown command
};
// A line whose first character is "/" is a command; one that begins with a space is always a
// question.
ChatLine ParseChatLine(std::string_view line);

}  // namespace quern::cli
