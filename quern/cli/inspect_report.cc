#include "quern/cli/inspect_report.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "quern/model/expected_tensors.h"
#include "quern/model/model.h"

namespace quern::cli {
namespace {

using checkpoint::ResolvedTensor;

// Of memory that the plan gives to neither weights nor keys: activations, tokenizer, the program.
constexpr double kWorkingShare = 0.05;

int64_t NumElements(const ResolvedTensor& tensor) {
  int64_t n = 1;
  for (const int64_t dim : tensor.expected.shape) n *= dim;
  return n;
}

// "exclude" of `exclude[17] "lm_head"`: the list a rule stands in.
std::string RuleField(const std::string& rule) { return rule.substr(0, rule.find('[')); }

// The memory of this machine, or of the control group that this process may use.
uint64_t MachineBytes() {
  uint64_t bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                   static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    uint64_t limit = 0;
    if (std::ifstream(path) >> limit && limit > 0) bytes = std::min(bytes, limit);
  }
  return bytes;
}

uint64_t MemoryBytes(const ResolvedTensor& tensor, const backend::ComputeChoice& compute) {
  const double per_weight = compute.kernel.empty() ? 0 : compute.bytes_per_weight;
  if (per_weight > 0)
    return static_cast<uint64_t>(per_weight * static_cast<double>(NumElements(tensor)));
  return tensor.stored_bytes;  // tables and vectors stay as they are
}

void AddGroups(InspectReport& report, const ChooseCompute& choose) {
  struct Key {
    std::string group, format, field, compute;
    bool operator<(const Key& o) const {
      return std::tie(group, format, field, compute) <
             std::tie(o.group, o.format, o.field, o.compute);
    }
  };
  std::map<Key, size_t> index;
  std::vector<std::set<std::string>> rules;
  for (const ResolvedTensor& tensor : report.plan.tensors) {
    if (tensor.weight == nullptr) continue;
    const std::string format(WeightFormatName(tensor.format));
    const backend::ComputeChoice compute = ComputeOf(tensor, choose);
    const Key key{tensor.expected.group, format, RuleField(tensor.rule), compute.compute_format};
    const auto [it, fresh] = index.emplace(key, report.groups.size());
    if (fresh) {
      report.groups.push_back(
          {.group = key.group, .format = format, .rule = {}, .compute = compute});
      rules.emplace_back();
    }
    InspectGroup& group = report.groups[it->second];
    ++group.num_tensors;
    group.stored_bytes += tensor.stored_bytes;
    group.memory_bytes += MemoryBytes(tensor, compute);
    rules[it->second].insert(tensor.rule);
  }
  for (const auto& [key, i] : index) {
    report.groups[i].rule = rules[i].size() == 1
                                ? *rules[i].begin()
                                : fmt::format("{}: {} entries", key.field, rules[i].size());
  }
}

void PlanMemory(InspectReport& report, double memory_gb) {
  InspectMemory& m = report.memory;
  m.machine_bytes = memory_gb > 0 ? static_cast<uint64_t>(memory_gb * 1e9) : MachineBytes();
  m.working_bytes = static_cast<uint64_t>(kWorkingShare * static_cast<double>(m.machine_bytes));
  for (const InspectGroup& group : report.groups) m.weight_bytes += group.memory_bytes;
  const model::KvLayout layout = model::MakeKvLayout(report.config);
  m.kv_bytes_per_token = layout.bytes_per_token();
  m.kv_dtype = std::string(DtypeName(layout.dtype));
  for (const model::KvLayout::Layer& layer : layout.layers) {
    ++m.latent_layers;
    m.latent_dim = layer.latent_dim;
    if (layer.index_key_dim == 0) continue;
    ++m.index_layers;
    m.index_dim = layer.index_key_dim;
  }
  const uint64_t taken = m.weight_bytes + m.working_bytes;
  if (m.machine_bytes > taken && m.kv_bytes_per_token > 0) {
    m.tokens_that_fit = static_cast<int64_t>(m.machine_bytes - taken) / m.kv_bytes_per_token;
  }
}

}  // namespace

backend::ComputeChoice ComputeOf(const ResolvedTensor& tensor, const ChooseCompute& choose) {
  const bool table = tensor.expected.name == "model.embed_tokens.weight";
  if (tensor.expected.shape.size() != 2 || table) return {};
  return choose(tensor);
}

InspectReport MakeInspectReport(const InspectOptions& options, const ChooseCompute& choose) {
  InspectReport report;
  report.path = options.model;
  auto opened = checkpoint::Checkpoint::Open(options.model, report.problems);
  if (!opened.ok()) {
    report.problems.Error("{}", opened.status().message());
    return report;
  }
  report.checkpoint = std::move(opened).value();
  checkpoint::Problems of_config;
  report.config = checkpoint::ParseModelConfig(report.checkpoint->config_json(), of_config);
  report.config_ok = of_config.errors().empty();
  for (const std::string& error : of_config.errors()) report.problems.Error("{}", error);
  for (const std::string& warning : of_config.warnings()) report.problems.Warning("{}", warning);
  if (report.config_ok) {
    report.plan = checkpoint::ResolvePrecisionPlan(
        *report.checkpoint, report.config, model::ExpectedTensors(report.config),
        {.read_scales = false, .trust_signatures = options.trust_signatures}, report.problems);
    AddGroups(report, choose);
    PlanMemory(report, options.memory_gb);
  }
  if (options.strict) report.problems.PromoteWarnings();
  return report;
}

}  // namespace quern::cli
