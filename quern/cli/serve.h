// `quern serve MODEL`: the OpenAI-compatible HTTP server.
#pragma once

#include "quern/cli/command.h"

namespace quern::cli {

void AddServeCommand(CLI::App& app, CommandResult& result);

}  // namespace quern::cli
