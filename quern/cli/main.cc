// The quern program: one row per subcommand.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "quern/base/log.h"
#include "quern/cli/bench.h"
#include "quern/cli/chat.h"
#include "quern/cli/command.h"
#include "quern/cli/generate.h"
#include "quern/cli/inspect.h"
#include "quern/cli/serve.h"

namespace quern::cli {
namespace {

// In the order of `quern --help`.
constexpr AddCommand kCommands[] = {
    AddServeCommand, AddChatCommand, AddGenerateCommand, AddInspectCommand, AddBenchCommand,
};

constexpr char kDescription[] =
    "quern serves GLM-5-class mixture-of-experts models: straight from a published checkpoint "
    "(bf16, FP8, MXFP4),\n"
    "over the OpenAI API, with every tensor's number format checked before it is read.";

constexpr char kFooter[] =
    "MODEL is a checkpoint directory: config.json, *.safetensors, tokenizer.json, "
    "chat_template.jinja.\n"
    "\n"
    "Try first:\n"
    "  quern inspect MODEL                       what is in it, and will it fit? (reads headers "
    "only)\n"
    "  quern chat MODEL                          talk to it here\n"
    "  quern generate MODEL -p 'Once upon'       complete one text\n"
    "  quern serve MODEL --port 8000             OpenAI API on http://127.0.0.1:8000/v1\n"
    "  quern bench batch MODEL                   how fast does it decode here?\n"
    "\n"
    "Then, from another terminal:\n"
    "  curl http://127.0.0.1:8000/v1/chat/completions -H 'Content-Type: application/json' \\\n"
    "    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}], \"stream\": true}'\n"
    "\n"
    "`quern COMMAND --help` explains a command. Results go to stdout, messages to stderr.\n"
    "Exit codes: 0 done, 1 failed, 2 the command line does not parse.";

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

int Main(int argc, char** argv) {
  log::Init();
  CLI::App app(kDescription, "quern");
  app.footer(kFooter);
  app.set_version_flag("--version", "quern " QUERN_VERSION);
  app.require_subcommand(1);
  app.fallthrough();  // inherited by the commands: --log-level may also stand after them
  app.get_formatter()->column_width(30);
  std::string log_level = "info";
  app.add_option("--log-level", log_level,
                 "Messages on stderr: trace, debug, info, warn, error or off")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}))
      ->each([](const std::string& level) { log::SetLevel(level); });
  app.failure_message([](const CLI::App* root, const CLI::Error& error) {
    // The command that was named explains its options better than the program does.
    const std::vector<CLI::App*> named = root->get_subcommands();
    const std::string command = named.empty() ? "" : " " + named.front()->get_name();
    return fmt::format("quern: {}\n`quern{} --help` explains.\n", error.what(), command);
  });
  CommandResult result;
  if (argc > 0) result.program = argv[0];
  for (const AddCommand add : kCommands) add(app, result);

  if (argc == 1) {
    std::fputs(app.help().c_str(), stderr);
    return kExitUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version come here too, with exit code 0.
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  if (!result.status.ok()) {
    std::fprintf(stderr, "quern: %s\n", result.status.message().c_str());
    return kExitFailure;
  }
  return 0;
}

}  // namespace
}  // namespace quern::cli

int main(int argc, char** argv) {
  try {
    return quern::cli::Main(argc, argv);
  } catch (const std::exception& error) {  // a library's, such as out of memory
    std::fprintf(stderr, "quern: unexpected failure: %s\n", error.what());
    return 1;
  }
}
