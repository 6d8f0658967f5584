// PrecisionPlan: the number format of every tensor the model wants, decided twice and proven.
//
// Each stored tensor is resolved under its checkpoint name, before any renaming or fusing: once by the dialect's
// rules (quantization_config) and once by its signature (dtype, shape, companions in the file). Disagreement is
// an error that names the tensor, the rule, the signature and the fix.
#pragma once

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
  std::string rule;       // "global_quant_config: fp4 per_group 32", "exclude[17] \"lm_head\"", "unquantized checkpoint"
  std::string signature;  // "U8 [6144, 1024] + weight_scale U8 [6144, 64]"
  uint64_t stored_bytes = 0;  // codes and scales in the file that belong to this tensor
  const TensorInfo* weight = nullptr;
  StoredMatrix matrix;  // view of the mapped bytes; a vector is [1, n]
};

struct PrecisionPlan {
  std::string dialect;  // "unquantized", "fp8 (block 128x128)", "quark", "compressed-tensors", "modelopt", "mxfp4 (gpt-oss)"
  std::vector<ResolvedTensor> tensors;  // in the order of the expected list

  // By checkpoint name; nullptr when the model does not want such a tensor. O(1) or O(log n).
  const ResolvedTensor* Find(std::string_view name) const;
};

struct PlanOptions {
  // Also look for E8M0 scales of 0xFF, which reads the scale bytes. Off for `quern inspect`.
  bool read_scales = false;
  // Where rule and signature disagree, take the signature and warn instead of refusing.
  bool trust_signatures = false;
};

// Resolves `expected` in `checkpoint`. Missing, unexpected, wrongly shaped or typed tensors, NaN scales, rule / signature
// disagreements, unknown dialects and formats, and rules that match nothing (a warning) go to `problems`. The plan is
// usable if no errors came.
PrecisionPlan ResolvePrecisionPlan(const Checkpoint& checkpoint, const ModelConfig& config,
                                   const std::vector<ExpectedTensor>& expected, const PlanOptions& options,
                                   Problems& problems);

}  // namespace quern::checkpoint
