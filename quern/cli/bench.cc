#include "quern/cli/bench.h"

namespace quern::cli {

void AddBenchCommand(CLI::App& app, CommandResult& result) {
  CLI::App* bench = app.add_subcommand("bench", "Measure a model on this machine");
  bench->require_subcommand(1);
  AddBenchBatchCommand(*bench, result);
}

}  // namespace quern::cli
