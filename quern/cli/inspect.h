// `quern inspect MODEL`: what a checkpoint holds, by which rule, and whether it fits. Reads headers
// only.
#pragma once

#include "quern/cli/command.h"

namespace quern::cli {

void AddInspectCommand(CLI::App& app, CommandResult& result);

}  // namespace quern::cli
