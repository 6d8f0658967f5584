#include "quern/cli/inspect.h"

#include <cstdio>
#include <memory>

#include "quern/backend/cpu/cpu_backend.h"
#include "quern/cli/inspect_report.h"
#include "quern/cli/session.h"
#include "quern/model/load_choice.h"

namespace quern::cli {
namespace {

Status RunInspect(const InspectOptions& options) {
  QUERN_TRY(CheckModelPath(options.model));
  // Asked for formats only: it gets no weights, so one thread is enough.
  const std::unique_ptr<backend::Backend> backend = backend::CreateCpuBackend(1);
  const model::ComputeOptions compute = ToComputeOptions(options.compute);
  const ChooseCompute choose = [&](const checkpoint::ResolvedTensor& tensor) {
    return backend->Choose(tensor.format, model::LoadChoice(tensor, compute));
  };
  const InspectReport report = MakeInspectReport(options, choose);
  if (options.json) {
    PrintInspectJson(report, choose, stdout);
  } else {
    PrintInspectText(report, options, choose, stdout);
  }
  std::fflush(stdout);
  const size_t errors = report.problems.errors().size();
  if (errors == 0) return OkStatus();
  return InvalidArgument("{} cannot be loaded: {} error{}, listed above", options.model, errors,
                         errors == 1 ? "" : "s");
}

}  // namespace

void AddInspectCommand(CLI::App& app, CommandResult& result) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand(
      "inspect", "Show what a checkpoint holds, by which rule, and whether it fits");
  command->footer(
      "Reads headers only, so it also works on checkpoints far larger than this machine. Per "
      "module group: how it is "
      "stored,\nthe rule of quantization_config that says so, how it is computed, bytes. Ends with "
      "1 when the "
      "checkpoint has errors.");
  command->add_option("model", options->model, "Checkpoint directory")->required();
  command->add_flag("--all", options->all, "List every tensor too");
  command->add_flag("--json", options->json, "Everything, every tensor too, as one JSON object");
  command->add_flag("--strict", options->strict, "Take warnings as errors");
  command->add_flag(
      "--trust-signatures", options->trust_signatures,
      "Where quantization_config and a tensor's stored form disagree, go by the form");
  command
      ->add_option("--memory-gb", options->memory_gb,
                   "Plan for a machine with this much memory, in GB (default: this one)")
      ->check(CLI::Range(0.001, 1e9));
  AddComputeFlags(*command, options->compute);
  command->callback([options, &result] { result.status = RunInspect(*options); });
}

}  // namespace quern::cli
