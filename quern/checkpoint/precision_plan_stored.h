// Finds what a checkpoint holds for a module, in the several ways files name it, and keeps book of
// what was used.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "quern/checkpoint/checkpoint.h"
#include "quern/checkpoint/signature.h"

namespace quern::checkpoint {

// The parts of one weight, and under which module name they are stored (another one when experts
// are fused).
struct FoundModule {
  StoredParts parts;
  std::string stored_module;  // empty: the module's own name
  std::string error;          // not empty: there, but of a shape that cannot be taken apart
};

class StoredTensors {
 public:
  explicit StoredTensors(const Checkpoint& checkpoint);

  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  bool used(size_t index) const { return used_[index]; }
  void MarkUsed(size_t index) { used_[index] = true; }

  // A tensor by its whole name, marked as used; nullptr when there is none.
  const TensorInfo* Take(std::string_view name);

  // The weight of `module` with its companions, all marked as used. Nothing when no weight is
  // stored under that name. Companions that quern has no use for (input_scale ...) are marked too
  // and counted.
  std::optional<FoundModule> TakeModule(std::string_view module);

  // The same for "<p>.experts.E.{gate,up,down}_proj" of [rows, cols] out of a tensor that holds all
  // experts:
  //   <p>.experts.gate_up_proj [experts, 2 * rows, cols], gate rows first, down_proj [experts,
  //   rows, cols], with _scale_inv or _scale beside it (transformers), or gate_up_proj_blocks
  //   [experts, 2 * rows, cols / 32, 16] and _scales [experts, 2 * rows, cols / 32], rows
  //   interleaved: gate, up, gate, up ... (gpt-oss).
  // `block_rows` is that of FP8 block scales.
  std::optional<FoundModule> TakeExpert(std::string_view module, int64_t num_experts, int64_t rows,
                                        int64_t cols, int64_t block_rows);

  int64_t num_unused_companions() const { return num_unused_companions_; }
  int64_t num_aliases() const { return num_aliases_; }

 private:
  struct Fused {
    const TensorInfo* weight = nullptr;
    const TensorInfo* scale = nullptr;
    bool interleaved = false;
    bool inverse_name = false;
    std::string module;        // "model.layers.3.mlp.experts.gate_up_proj"
    std::string weight_label;  // "gate_up_proj_blocks"
    std::string scale_label;
  };
  const Fused& FindFused(std::string_view experts, bool gate_up);

  const std::vector<TensorInfo>& tensors_;
  std::vector<bool> used_;
  std::unordered_map<std::string, Fused> fused_;  // by module
  int64_t num_unused_companions_ = 0;
  int64_t num_aliases_ = 0;
};

}  // namespace quern::checkpoint
