// Flags of the engine: cache, batching, speculative decoding.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "quern/base/status.h"
#include "quern/engine/engine.h"
#include "quern/model/model.h"

namespace quern::cli {

// How weights are multiplied: flags of every command that loads or inspects a model.
struct ComputeFlags {
  std::string dense_format = "stored";
  std::string expert_activations = "auto";
};
void AddComputeFlags(CLI::App& command, ComputeFlags& flags);
model::ComputeOptions ToComputeOptions(const ComputeFlags& flags);

struct EngineFlags {
  int64_t max_model_len = 0;  // 0: what the model and the cache allow
  double kv_cache_gb = 0;     // 0: a share of free memory
  std::string kv_cache_dtype = "auto";
  std::string cache_dir;
  double cache_dir_gb = 16;
  bool no_prefix_cache = false;
  int32_t max_num_seqs = 256;
  int32_t max_queued = 1024;
  int32_t prefill_chunk = 512;
  std::string speculative = "auto";
  std::optional<int32_t> num_steps;         // sglang's name: drafts per round
  std::optional<int32_t> num_draft_tokens;  // sglang's name: rows verified, the root included
  int32_t eagle_topk = 1;
  double simulate_accept_length = 0;
};

void AddEngineFlags(CLI::App& command, EngineFlags& flags);

// kInvalidArgument or kUnimplemented for flags that contradict each other or ask for what there is
// not, by name.
Result<engine::EngineOptions> ToEngineOptions(const EngineFlags& flags);

}  // namespace quern::cli
