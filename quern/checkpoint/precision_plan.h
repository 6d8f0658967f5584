// PrecisionPlan: the number format of every tensor the model wants, decided twice and proven.
//
// Each stored tensor is resolved under its checkpoint name, before any renaming or fusing: once by
// the dialect's rules (quantization_config) and once by its signature (dtype, shape, companions in
// the file). Disagreement is an error that names the tensor, the rule, the signature and the fix.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "quern/checkpoint/checkpoint.h"
#include "quern/checkpoint/config.h"
#include "quern/numerics/stored_matrix.h"

namespace quern::checkpoint {

// A tensor the architecture wants, under its checkpoint name, with its logical shape.
struct ExpectedTensor {
  std::string name;            // "model.layers.3.mlp.experts.17.down_proj.weight"
  std::vector<int64_t> shape;  // [out, in] for a matrix, [n] for a vector
  // Matrices of Linear modules may be quantized; norms, biases, the router and the like never are.
  bool quantizable = false;
  std::string group;  // module group for people: "routed experts", "attention", "MTP layer 78" ...
  int layer = -1;     // -1 outside the layers
};

// One wanted tensor and where its numbers are.
struct ResolvedTensor {
  ExpectedTensor expected;
  WeightFormat format = WeightFormat::kBf16;
  std::string rule;           // "global_quant_config: fp4 per_group 32", "exclude[17] \"lm_head\"",
                              // "unquantized checkpoint"
  std::string signature;      // "U8 [6144, 1024] + weight_scale U8 [6144, 64]"
  uint64_t stored_bytes = 0;  // codes and scales in the file that belong to this tensor
  const TensorInfo* weight = nullptr;
  StoredMatrix matrix;  // view of the mapped bytes; a vector is [1, n]
};

// Move-only: matrices may point into `converted_scales`.
struct PrecisionPlan {
  // "unquantized", "fp8 (block 128x128)", "quark", "compressed-tensors", "modelopt (NVFP4)", "mxfp4
  // (gpt-oss)"
  std::string dialect;
  std::vector<ResolvedTensor> tensors;  // in the order of the expected list
  int64_t num_stored_used =
      0;  // tensors of the file that these were made from, companions included
  // What a reader should know and need not act on: aliases accepted, scales not used, activations
  // kept in bf16.
  std::vector<std::string> notes;

  // By checkpoint name; nullptr when the model does not want such a tensor. O(log n).
  const ResolvedTensor* Find(std::string_view name) const;

  std::vector<uint32_t> by_name;  // indices into `tensors`, sorted by name
  // FP8 scales that the file keeps in another type than f32, converted (exactly).
  std::vector<std::unique_ptr<float[]>> converted_scales;
};

struct PlanOptions {
  // Read scale bytes: look for E8M0 scales of 0xFF and for scales that are not finite, fetch
  // NVFP4's global scale, convert FP8 scales that are not f32, and compare copies that should be
  // equal. A plan made without has the right formats, rules and sizes but is not for computing:
  // those scales are absent.
  bool read_scales = false;
  // Where rule and signature disagree, believe the file: a warning instead of an error.
  bool trust_signatures = false;
};

// Resolves `expected` in `checkpoint`. Missing, unexpected, wrongly shaped or typed tensors, bad
// scales (when they are read), rule / signature disagreements, unknown dialects and formats, and
// rules that match nothing (a warning) go to `problems`; many of a kind become one message with
// their number. The plan is usable if no errors came. Quantization rules come from
// config.quantization, else from the checkpoint's hf_quant_config.json.
PrecisionPlan ResolvePrecisionPlan(const Checkpoint& checkpoint, const ModelConfig& config,
                                   const std::vector<ExpectedTensor>& expected,
                                   const PlanOptions& options, Problems& problems);
}  // namespace quern::checkpoint
