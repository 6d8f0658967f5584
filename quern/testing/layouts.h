// How each checkpoint dialect stores a model: which tensors in which encoding under which names,
// and the quantization_config that says so. Written from the dialects' descriptions, independently
// of the code that reads them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "quern/base/json.h"
#include "quern/base/status.h"
#include "quern/checkpoint/config.h"
#include "quern/numerics/dtype.h"
#include "quern/testing/encode_weights.h"

namespace quern::testing {

enum class Layout {
  kF32,
  kBf16,
  kF16,
  kFp8Block,         // official: weight_scale_inv per 128 x 128, modules_to_not_convert
  kQuarkMxfp4,       // trunk experts MXFP4, the rest and the whole MTP layer bf16, every leaf in
                     // "exclude"
  kQuarkMxfp4Fp8,    // the same with attention in per-channel FP8 through layer_quant_config
  kQuarkFp8Block,    // trunk; weight_scale per 128 x 128
  kQuarkFp8Channel,  // trunk; weight_scale [out]
  kQuarkFp8Tensor,   // trunk; weight_scale []
  kCtMxfp4,          // compressed-tensors, trunk experts: weight_packed, weight_scale
  kCtFp8Channel,     // compressed-tensors, trunk: weight, weight_scale [out, 1]
  kCtFp8Block,       // compressed-tensors, trunk: weight, weight_scale per 128 x 128
  kCtNvfp4,  // compressed-tensors, trunk routed experts: weight_packed, global scales as divisors
  kModeloptNvfp4,  // trunk routed experts: weight_scale_2 and input_scale as multipliers
  kGptOss,         // experts as stacked _blocks and _scales, gate and up rows interleaved
  kFusedBf16,  // transformers' in-memory form: experts.gate_up_proj [E, 2I, H], experts.down_proj
               // [E, H, I]
};

// "bf16", "fp8-block", "quark-mxfp4" ...
std::string_view LayoutName(Layout layout);
Result<Layout> LayoutFromName(std::string_view name);
// All names, comma separated.
std::string LayoutNames();
std::vector<Layout> AllLayouts();

// One tensor of the file.
struct Piece {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> shape;

  uint64_t bytes() const;
};

// Weights that are encoded together: usually one tensor of the model, for fused experts all of
// them. The pieces hold the strings that EncodeWeights returns for the parts' rows, in its order.
struct Unit {
  struct Part {
    std::string name;  // of the tensor of the model (MasterWeights)
    std::vector<int64_t> shape;
  };
  std::vector<Part> parts;
  // Rows of parts 2i and 2i + 1 alternate (gate and up in gpt-oss files) instead of following each
  // other.
  bool interleave_pairs = false;
  Encoding encoding = Encoding::kBf16;
  std::vector<Piece> pieces;
};

// Everything a checkpoint of this layout stores, in order of layers.
std::vector<Unit> PlanUnits(const checkpoint::ModelConfig& config, Layout layout);

// The "quantization_config" of config.json; null for unquantized layouts.
Json QuantizationConfig(const checkpoint::ModelConfig& config, Layout layout);

// "bfloat16", "float32" or "float16": what config.json says under "dtype".
std::string_view LayoutDtype(Layout layout);

}  // namespace quern::testing
