// `quern generate MODEL -p TEXT`: one completion to stdout, as text or JSON.
#pragma once

#include "quern/cli/command.h"

namespace quern::cli {

void AddGenerateCommand(CLI::App& app, CommandResult& result);

}  // namespace quern::cli
