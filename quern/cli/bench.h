// `quern bench`: measuring commands.
#pragma once

#include "quern/cli/command.h"

namespace quern::cli {

void AddBenchCommand(CLI::App& app, CommandResult& result);
// `quern bench batch`: decoding of one model by number of streams and drafts.
void AddBenchBatchCommand(CLI::App& bench, CommandResult& result);

}  // namespace quern::cli
