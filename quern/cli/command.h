// The shape of a subcommand. One file per command (chat.cc, inspect.cc ...), one row in main.cc's
// table.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "quern/base/status.h"

namespace quern::cli {

// What the command that ran left for main: an error goes to stderr as one message, and the program
// ends with 1. (Command lines that do not parse end with 2 before any command runs.)
struct CommandResult {
  Status status;
  std::string program = "quern";  // how this program was called, for examples in messages
};

// Adds one subcommand to `app`: its options, its help, and a callback that does the work and stores
// the outcome in `result`. Results go to stdout, everything else to stderr. `result` outlives the
// parse.
//
//   void AddInspectCommand(CLI::App& app, CommandResult& result) {
//     auto options = std::make_shared<InspectOptions>();
//     CLI::App* command = app.add_subcommand("inspect", "Show what a checkpoint holds, from its
//     headers only"); command->add_option("model", options->model, "Checkpoint
//     directory")->required(); command->callback([options, &result] { result.status =
//     RunInspect(*options); });
//   }
using AddCommand = void (*)(CLI::App& app, CommandResult& result);

}  // namespace quern::cli
