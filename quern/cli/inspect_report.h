// Everything `quern inspect` says about a checkpoint, gathered; inspect_print.cc and
// inspect_json.cc put it into words.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "quern/backend/weights.h"
#include "quern/checkpoint/checkpoint.h"
#include "quern/checkpoint/config.h"
#include "quern/checkpoint/precision_plan.h"
#include "quern/checkpoint/problems.h"
#include "quern/cli/engine_flags.h"

namespace quern::cli {

// Tensors of one module group that are stored and computed alike.
struct InspectGroup {
  std::string group;               // "routed experts"
  std::string format;              // "mxfp4"
  std::string rule;                // the rule, or "exclude: 76 entries" where several decided
  backend::ComputeChoice compute;  // empty for vectors and tables, which are not multiplied
  int64_t num_tensors = 0;
  uint64_t stored_bytes = 0;
  uint64_t memory_bytes = 0;  // in the backend, once loaded
};

struct InspectMemory {
  uint64_t machine_bytes = 0;  // what the plan is for
  uint64_t weight_bytes = 0;   // all groups in memory
  uint64_t working_bytes = 0;  // left free for activations and the rest of the program
  int64_t kv_bytes_per_token = 0;
  int64_t latent_layers = 0, latent_dim = 0;  // of which the KV bytes consist
  int64_t index_layers = 0, index_dim = 0;
  std::string kv_dtype;
  int64_t tokens_that_fit = 0;  // 0 when the weights alone do not
};

struct InspectReport {
  std::string path;
  checkpoint::Problems problems;
  std::unique_ptr<checkpoint::Checkpoint> checkpoint;  // nullptr: nothing could be opened
  checkpoint::ModelConfig config;
  bool config_ok = false;  // else plan, groups and memory are empty
  checkpoint::PrecisionPlan plan;
  std::vector<InspectGroup> groups;  // in order of the model
  InspectMemory memory;
};

struct InspectOptions {
  std::string model;
  bool all = false;
  bool json = false;
  bool strict = false;
  bool trust_signatures = false;
  double memory_gb = 0;  // 0: this machine's
  ComputeFlags compute;
};

// How the backend computes with a tensor, under the command's flags (model::LoadChoice and
// backend::Backend::Choose).
using ChooseCompute = std::function<backend::ComputeChoice(const checkpoint::ResolvedTensor&)>;

InspectReport MakeInspectReport(const InspectOptions& options, const ChooseCompute& choose);

// Bytes that `tensor` takes in the backend, and how it is computed with.
backend::ComputeChoice ComputeOf(const checkpoint::ResolvedTensor& tensor,
                                 const ChooseCompute& choose);

// "glm_moe_dsa": the report on stdout.
void PrintInspectText(const InspectReport& report, const InspectOptions& options,
                      const ChooseCompute& choose, std::FILE* out);
void PrintInspectJson(const InspectReport& report, const ChooseCompute& choose, std::FILE* out);

}  // namespace quern::cli
