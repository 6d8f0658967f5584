// make-test-checkpoint: writes a random checkpoint for tests and experiments.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "quern/testing/checkpoint_writer.h"

namespace quern::testing {
namespace {

struct Flags {
  std::string out;
  std::string config_file;
  std::string preset;
  std::string layout = "bf16";
  int num_shards = 0;
  CheckpointSpec spec;
};

void Declare(CLI::App& app, Flags& flags) {
  app.add_option("OUT", flags.out, "folder to write")->required();
  auto* config = app.add_option("--config", flags.config_file, "config.json to follow");
  app.add_option("--preset", flags.preset, "a known config instead: " + PresetNames())
      ->excludes(config);
  app.add_option("--layout", flags.layout, "how weights are stored: " + LayoutNames())
      ->capture_default_str();
  app.add_option("--seed", flags.spec.weights.seed, "of the random weights")->capture_default_str();
  app.add_option("--shards", flags.num_shards,
                 "number of weight files (default: 1, or the usual number for a full-size preset)")
      ->check(CLI::Range(1, 99999));
  app.add_flag("--sparse", flags.spec.sparse,
               "write headers only and leave the data as holes: full-size models on a small disk");
  app.add_option("--tokenizer-dir", flags.spec.tokenizer_dir,
                 "copy tokenizer, chat template and generation config from here");
  app.add_option("--router-bias-offset", flags.spec.weights.router_bias_offset,
                 "common offset of the experts' score biases")
      ->capture_default_str();
  app.add_option("--router-bias-spread", flags.spec.weights.router_bias_spread,
                 "standard deviation of the experts' score biases")
      ->capture_default_str();
}

Status Run(Flags& flags) {
  if (flags.config_file.empty() && flags.preset.empty()) {
    return InvalidArgument("give --preset NAME or --config FILE; see --help");
  }
  QUERN_ASSIGN(flags.spec.layout, LayoutFromName(flags.layout));
  if (flags.preset.empty()) {
    QUERN_ASSIGN(flags.spec.config, ReadJsonFile(flags.config_file));
  } else {
    QUERN_ASSIGN(flags.spec.config, PresetConfig(flags.preset));
  }
  flags.spec.num_shards =
      flags.num_shards > 0 ? flags.num_shards : TypicalShards(flags.preset, flags.spec.layout);
  return WriteCheckpoint(flags.out, flags.spec);
}

}  // namespace
}  // namespace quern::testing

int main(int argc, char** argv) {
  CLI::App app{
      "Writes a random checkpoint: the same flags give the same bytes.\n"
      "Example: make-test-checkpoint /tmp/tiny --preset tiny-dsa --layout quark-mxfp4 "
      "--tokenizer-dir tests/data/tokenizer"};
  quern::testing::Flags flags;
  quern::testing::Declare(app, flags);
  CLI11_PARSE(app, argc, argv);
  if (quern::Status status = quern::testing::Run(flags); !status.ok()) {
    fmt::print(stderr, "{}\n", status.message());
    return 1;
  }
  return 0;
}
