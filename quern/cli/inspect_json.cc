#include <cstdio>
#include <string>

#include "quern/base/json.h"
#include "quern/cli/inspect_report.h"

namespace quern::cli {
namespace {

Json ComputeJson(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json ModelJson(const checkpoint::ModelConfig& c) {
  return {{"model_type", c.model_type},
          {"architecture", c.architecture},
          {"dtype", std::string(DtypeName(c.dtype))},
          {"num_layers", c.num_layers},
          {"num_mtp_layers", c.num_mtp_layers},
          {"hidden_size", c.hidden_size},
          {"num_heads", c.num_heads},
          {"num_experts", c.num_experts},
          {"experts_per_token", c.experts_per_token},
          {"num_shared_experts", c.num_shared_experts},
          {"vocab_size", c.vocab_size},
          {"max_positions", c.max_positions}};
}

Json GroupJson(const InspectGroup& g) {
  return {{"group", g.group},
          {"format", g.format},
          {"rule", g.rule},
          {"compute_format", ComputeJson(g.compute.compute_format)},
          {"kernel", ComputeJson(g.compute.kernel)},
          {"tensors", g.num_tensors},
          {"stored_bytes", g.stored_bytes},
          {"memory_bytes", g.memory_bytes}};
}

Json MemoryJson(const InspectMemory& m) {
  return {{"machine_bytes", m.machine_bytes}, {"weight_bytes", m.weight_bytes},
          {"working_bytes", m.working_bytes}, {"kv_bytes_per_token", m.kv_bytes_per_token},
          {"kv_dtype", m.kv_dtype},           {"latent_layers", m.latent_layers},
          {"latent_dim", m.latent_dim},       {"index_layers", m.index_layers},
          {"index_dim", m.index_dim},         {"tokens_that_fit", m.tokens_that_fit}};
}

Json TensorJson(const checkpoint::ResolvedTensor& t, const ChooseCompute& choose) {
  const backend::ComputeChoice compute = ComputeOf(t, choose);
  return {{"name", t.expected.name},
          {"group", t.expected.group},
          {"layer", t.expected.layer < 0 ? Json() : Json(t.expected.layer)},
          {"shape", t.expected.shape},
          {"format", std::string(WeightFormatName(t.format))},
          {"rule", t.rule},
          {"signature", t.signature},
          {"compute_format", ComputeJson(compute.compute_format)},
          {"kernel", ComputeJson(compute.kernel)},
          {"stored_in", t.weight->name},
          {"stored_bytes", t.stored_bytes}};
}

void Field(std::FILE* out, const char* name, const Json& value, bool comma = true) {
  std::fprintf(out, "  \"%s\": %s%s\n", name, DumpJson(value).c_str(), comma ? "," : "");
}

}  // namespace

// Written piece by piece: a hundred thousand tensors as one JSON value would take more memory than
// everything else.
void PrintInspectJson(const InspectReport& report, const ChooseCompute& choose, std::FILE* out) {
  std::fputs("{\n", out);
  Field(out, "path", report.path);
  Field(out, "ok", report.problems.errors().empty());
  Field(out, "errors", report.problems.errors());
  Field(out, "warnings", report.problems.warnings());
  Field(out, "notes", report.plan.notes);
  if (report.checkpoint != nullptr) {
    Field(out, "files",
          {{"shards", report.checkpoint->shards().size()},
           {"tensors", report.checkpoint->tensors().size()},
           {"tensors_resolved", report.plan.num_stored_used},
           {"bytes", report.checkpoint->total_bytes()}});
  }
  if (report.config_ok) {
    Field(out, "model", ModelJson(report.config));
    Field(out, "dialect", report.plan.dialect);
    Field(out, "memory", MemoryJson(report.memory));
  }
  Json groups = Json::array();
  for (const InspectGroup& group : report.groups) groups.push_back(GroupJson(group));
  Field(out, "groups", groups);
  std::fputs("  \"tensors\": [", out);
  const char* separator = "\n    ";
  for (const checkpoint::ResolvedTensor& tensor : report.plan.tensors) {
    if (tensor.weight == nullptr) continue;
    std::fputs(separator, out);
    std::fputs(DumpJson(TensorJson(tensor, choose)).c_str(), out);
    separator = ",\n    ";
  }
  std::fputs("\n  ]\n}\n", out);
}

}  // namespace quern::cli
