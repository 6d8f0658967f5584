#include "quern/cli/engine_flags.h"

#include "quern/base/log.h"

namespace quern::cli {

void AddComputeFlags(CLI::App& command, ComputeFlags& flags) {
  const std::string group = "Number formats";
  command
      .add_option("--dense-format", flags.dense_format,
                  "Weights outside the routed experts: stored (as the file has them), int8 (groups "
                  "of 32, times int8 activations), fp8 (unquantized ones made FP8). The router and "
                  "kv_b_proj stay as stored")
      ->check(CLI::IsMember({"stored", "int8", "fp8"}))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--expert-activations", flags.expert_activations,
                  "What routed experts multiply: auto (int8 where they are MXFP4), bf16 (the "
                  "activations as they are), int8")
      ->check(CLI::IsMember({"auto", "bf16", "int8"}))
      ->capture_default_str()
      ->group(group);
}

model::ComputeOptions ToComputeOptions(const ComputeFlags& flags) {
  using model::DenseFormat;
  using model::ExpertActivations;
  return {.dense_format = flags.dense_format == "int8"  ? DenseFormat::kInt8
                          : flags.dense_format == "fp8" ? DenseFormat::kFp8
                                                        : DenseFormat::kStored,
          .expert_activations = flags.expert_activations == "bf16"   ? ExpertActivations::kBf16
                                : flags.expert_activations == "int8" ? ExpertActivations::kInt8
                                                                     : ExpertActivations::kAuto};
}

void AddEngineFlags(CLI::App& command, EngineFlags& flags) {
  const std::string group = "Engine";
  command
      .add_option("--max-model-len", flags.max_model_len,
                  "Longest prompt + answer in tokens (default: what model and cache allow)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->group(group);
  command
      .add_option("--kv-cache-gb", flags.kv_cache_gb,
                  "Memory for the KV cache, in GB (default: a share of free memory)")
      ->check(CLI::Range(0.001, 1e6))
      ->group(group);
  command
      .add_option("--kv-cache-dtype", flags.kv_cache_dtype,
                  "How keys are stored: auto (as the model computes), bf16, fp8_e4m3 (a scale per "
                  "128 elements), fp8_e4m3_raw (scale 1)")
      ->check(CLI::IsMember({"auto", "bf16", "fp8_e4m3", "fp8_e4m3_raw"}))
      ->capture_default_str()
      ->group(group);
  command
      .add_flag("--no-prefix-cache", flags.no_prefix_cache,
                "Compute every prompt whole, even when an earlier one began alike")
      ->group(group);
  command
      .add_option("--cache-dir", flags.cache_dir,
                  "Directory where cached prefixes are kept over a restart (default: none)")
      ->group(group);
  command.add_option("--cache-dir-gb", flags.cache_dir_gb, "Most of it to use, in GB")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str()
      ->group(group);
  command.add_option("--max-num-seqs", flags.max_num_seqs, "Most requests computed together")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--max-queued", flags.max_queued,
                  "Most requests that wait; one more is answered 429")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--prefill-chunk", flags.prefill_chunk,
                  "Most prompt tokens per step; fewer while others wait for their next token")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--speculative", flags.speculative,
                  "Draft tokens with the model's MTP layer: auto (as many as pay), on, off. Output "
                  "is the same")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--speculative-num-steps", flags.num_steps, "Most drafts per round (default: 5)")
      ->check(CLI::Range(1, engine::kMaxDrafts))
      ->group(group);
  command
      .add_option("--speculative-num-draft-tokens", flags.num_draft_tokens,
                  "Tokens checked per round: drafts + 1")
      ->check(CLI::Range(2, engine::kMaxDrafts + 1))
      ->group(group);
  command
      .add_option("--speculative-eagle-topk", flags.eagle_topk,
                  "Branches per draft; only 1, a chain, is implemented")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--simulate-accept-length", flags.simulate_accept_length,
                  "For benchmarks only: accept drafts unseen, so many tokens per round on average. "
                  "Answers are nonsense and are marked as such")
      ->group(group);
}

Result<engine::EngineOptions> ToEngineOptions(const EngineFlags& flags) {
  engine::EngineOptions options;
  options.max_model_len = flags.max_model_len;
  options.kv_cache_bytes = static_cast<int64_t>(flags.kv_cache_gb * 1e9);
  using model::KvDtype;
  options.kv_dtype = flags.kv_cache_dtype == "bf16"           ? KvDtype::kBf16
                     : flags.kv_cache_dtype == "fp8_e4m3"     ? KvDtype::kFp8
                     : flags.kv_cache_dtype == "fp8_e4m3_raw" ? KvDtype::kFp8Raw
                                                              : KvDtype::kAuto;
  options.prefix_cache = !flags.no_prefix_cache;
  options.cache_dir = flags.cache_dir;
  options.cache_dir_bytes = static_cast<int64_t>(flags.cache_dir_gb * 1e9);
  options.max_running = flags.max_num_seqs;
  options.max_queued = flags.max_queued;
  options.prefill_chunk = flags.prefill_chunk;
  if (flags.eagle_topk != 1) {
    return Unimplemented(
        "--speculative-eagle-topk {}: trees of drafts are not implemented; 1, a chain, is",
        flags.eagle_topk);
  }
  options.draft.mode = flags.speculative == "off"  ? engine::DraftMode::kOff
                       : flags.speculative == "on" ? engine::DraftMode::kFixed
                                                   : engine::DraftMode::kAuto;
  if (flags.num_steps && flags.num_draft_tokens &&
      *flags.num_draft_tokens != *flags.num_steps + 1) {
    return InvalidArgument(
        "--speculative-num-steps {} and --speculative-num-draft-tokens {} disagree: a chain of {} "
        "drafts is checked with {} tokens; give one of them",
        *flags.num_steps, *flags.num_draft_tokens, *flags.num_steps, *flags.num_steps + 1);
  }
  options.draft.simulated_accept_length = flags.simulate_accept_length;
  if (flags.simulate_accept_length > 0) {
    options.draft.mode = engine::DraftMode::kFixed;
    log::warn("drafts are accepted unseen (--simulate-accept-length): answers are nonsense");
  }
  if (flags.num_steps) options.draft.num_drafts = *flags.num_steps;
  if (flags.num_draft_tokens) options.draft.num_drafts = *flags.num_draft_tokens - 1;
  return options;
}

}  // namespace quern::cli
