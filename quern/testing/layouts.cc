#include "quern/testing/layouts.h"

#include <utility>

#include "quern/base/check.h"
#include "quern/model/expected_tensors.h"
#include "quern/testing/tensor_roles.h"

namespace quern::testing {
namespace {

using checkpoint::ExpectedTensor;
using checkpoint::ModelConfig;

struct Row {
  Layout layout;
  std::string_view name;
};
constexpr Row kLayouts[] = {
    {Layout::kF32, "f32"},
    {Layout::kBf16, "bf16"},
    {Layout::kF16, "f16"},
    {Layout::kFp8Block, "fp8-block"},
    {Layout::kQuarkMxfp4, "quark-mxfp4"},
    {Layout::kQuarkMxfp4Fp8, "quark-mxfp4-fp8"},
    {Layout::kQuarkFp8Block, "quark-fp8-block"},
    {Layout::kQuarkFp8Channel, "quark-fp8-channel"},
    {Layout::kQuarkFp8Tensor, "quark-fp8-tensor"},
    {Layout::kCtMxfp4, "ct-mxfp4"},
    {Layout::kCtFp8Channel, "ct-fp8-channel"},
    {Layout::kCtFp8Block, "ct-fp8-block"},
    {Layout::kCtNvfp4, "ct-nvfp4"},
    {Layout::kModeloptNvfp4, "modelopt-nvfp4"},
    {Layout::kGptOss, "gpt-oss"},
    {Layout::kFusedBf16, "fused-bf16"},
};

// What tensors that are not quantized are stored as.
Encoding PlainEncoding(Layout layout, Role role) {
  if (role == Role::kRouterBias || layout == Layout::kF32) return Encoding::kF32;
  return layout == Layout::kF16 ? Encoding::kF16 : Encoding::kBf16;
}

// The encoding of one tensor; the table that each layout's comment in layouts.h describes.
Encoding EncodingOf(Layout layout, const ExpectedTensor& tensor, const ModelConfig& config) {
  const Role role = RoleOf(tensor);
  const bool is_trunk = tensor.layer >= 0 && tensor.layer < config.num_layers;
  const bool is_expert = role == Role::kRoutedExpert || role == Role::kSharedExpert;
  const bool is_module = tensor.quantizable && role != Role::kLmHead && role != Role::kEhProj;
  const auto when = [&](bool condition, Encoding encoding) {
    return condition ? encoding : PlainEncoding(layout, role);
  };
  switch (layout) {
    case Layout::kF32:
    case Layout::kBf16:
    case Layout::kF16:
    case Layout::kFusedBf16:
      return PlainEncoding(layout, role);
    case Layout::kFp8Block:
      return when(is_module, Encoding::kFp8Block);
    case Layout::kQuarkMxfp4Fp8:
      if (is_trunk && role == Role::kAttention) return Encoding::kFp8Channel;
      return when(is_trunk && is_expert, Encoding::kMxfp4);
    case Layout::kQuarkMxfp4:
    case Layout::kCtMxfp4:
      return when(is_trunk && is_expert, Encoding::kMxfp4);
    case Layout::kQuarkFp8Block:
    case Layout::kCtFp8Block:
      return when(is_trunk && is_module, Encoding::kFp8Block);
    case Layout::kQuarkFp8Channel:
    case Layout::kCtFp8Channel:
      return when(is_trunk && is_module, Encoding::kFp8Channel);
    case Layout::kQuarkFp8Tensor:
      return when(is_trunk && is_module, Encoding::kFp8Tensor);
    case Layout::kCtNvfp4:
      return when(is_trunk && role == Role::kRoutedExpert, Encoding::kNvfp4Divisor);
    case Layout::kModeloptNvfp4:
      return when(is_trunk && role == Role::kRoutedExpert, Encoding::kNvfp4Multiplier);
    case Layout::kGptOss:
      return when(role == Role::kRoutedExpert, Encoding::kMxfp4);
  }
  return Encoding::kBf16;
}

bool IsCompressedTensors(Layout layout) {
  return layout == Layout::kCtMxfp4 || layout == Layout::kCtFp8Channel ||
         layout == Layout::kCtFp8Block || layout == Layout::kCtNvfp4;
}

int64_t Ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The stored tensors of "X.weight" (or of a vector) for an encoding, named as the layout names
// them.
std::vector<Piece> PiecesOf(Layout layout, Encoding encoding, const ExpectedTensor& tensor) {
  const std::string& name = tensor.name;
  const std::string scale = name + "_scale";  // X.weight_scale
  const bool is_ct = IsCompressedTensors(layout);
  const int64_t rows = tensor.shape[0], cols = tensor.shape.back();
  const std::string packed = is_ct ? name + "_packed" : name;
  switch (encoding) {
    case Encoding::kF32:
      return {{name, Dtype::kF32, tensor.shape}};
    case Encoding::kF16:
      return {{name, Dtype::kF16, tensor.shape}};
    case Encoding::kBf16:
      return {{name, Dtype::kBf16, tensor.shape}};
    case Encoding::kFp8Block:
      return {{name, Dtype::kF8E4M3, tensor.shape},
              {layout == Layout::kFp8Block ? scale + "_inv" : scale,
               Dtype::kF32,
               {Ceil(rows, kFp8BlockSize), Ceil(cols, kFp8BlockSize)}}};
    case Encoding::kFp8Channel: {
      std::vector<int64_t> shape = {rows};
      if (is_ct) shape.push_back(1);
      return {{name, Dtype::kF8E4M3, tensor.shape}, {scale, Dtype::kF32, shape}};
    }
    case Encoding::kFp8Tensor:
      return {{name, Dtype::kF8E4M3, tensor.shape}, {scale, Dtype::kF32, {}}};
    case Encoding::kMxfp4:
      return {{packed, Dtype::kU8, {rows, cols / 2}}, {scale, Dtype::kU8, {rows, cols / 32}}};
    case Encoding::kNvfp4Multiplier:
    case Encoding::kNvfp4Divisor: {
      const std::string module = name.substr(0, name.size() - std::string_view(".weight").size());
      const std::vector<int64_t> one = is_ct ? std::vector<int64_t>{1} : std::vector<int64_t>{};
      return {{packed, Dtype::kU8, {rows, cols / 2}},
              {scale, Dtype::kF8E4M3, {rows, cols / 16}},
              {is_ct ? name + "_global_scale" : scale + "_2", Dtype::kF32, one},
              {module + (is_ct ? ".input_global_scale" : ".input_scale"), Dtype::kF32, one}};
    }
  }
  return {};
}

// All experts of one layer as two stacked units. `experts` lists gate, up, down of expert 0, then
// of expert 1 ...
void AddFusedExperts(Layout layout, const std::vector<const ExpectedTensor*>& experts,
                     const ModelConfig& config, std::vector<Unit>& out) {
  const std::string& first = experts[0]->name;
  const std::string prefix =
      first.substr(0, first.find(".experts.") + std::string_view(".experts.").size());
  const int64_t num_experts = static_cast<int64_t>(experts.size()) / 3;
  const int64_t hidden = config.hidden_size, inter = config.moe_intermediate_size;
  Unit gate_up, down;
  for (size_t i = 0; i < experts.size(); i += 3) {
    gate_up.parts.push_back({experts[i]->name, experts[i]->shape});
    gate_up.parts.push_back({experts[i + 1]->name, experts[i + 1]->shape});
    down.parts.push_back({experts[i + 2]->name, experts[i + 2]->shape});
  }
  gate_up.encoding = down.encoding = EncodingOf(layout, *experts[0], config);
  gate_up.interleave_pairs = layout == Layout::kGptOss;
  const auto pieces = [&](const std::string& name, int64_t rows, int64_t cols) {
    if (layout == Layout::kFusedBf16) {
      return std::vector<Piece>{{prefix + name, Dtype::kBf16, {num_experts, rows, cols}}};
    }
    return std::vector<Piece>{
        {prefix + name + "_blocks", Dtype::kU8, {num_experts, rows, cols / 32, 16}},
        {prefix + name + "_scales", Dtype::kU8, {num_experts, rows, cols / 32}}};
  };
  gate_up.pieces = pieces("gate_up_proj", 2 * inter, hidden);
  down.pieces = pieces("down_proj", hidden, inter);
  out.push_back(std::move(gate_up));
  out.push_back(std::move(down));
}

}  // namespace

std::string_view LayoutName(Layout layout) { return kLayouts[static_cast<int>(layout)].name; }

Result<Layout> LayoutFromName(std::string_view name) {
  for (const Row& row : kLayouts) {
    if (row.name == name) return row.layout;
  }
  return InvalidArgument("unknown layout \"{}\", want one of {}", name, LayoutNames());
}

std::string LayoutNames() {
  std::string text;
  for (const Row& row : kLayouts) text += fmt::format("{}{}", text.empty() ? "" : ", ", row.name);
  return text;
}

std::vector<Layout> AllLayouts() {
  std::vector<Layout> all;
  for (const Row& row : kLayouts) all.push_back(row.layout);
  return all;
}

uint64_t Piece::bytes() const {
  uint64_t bytes = static_cast<uint64_t>(DtypeBytes(dtype));
  for (int64_t dim : shape) bytes *= static_cast<uint64_t>(dim);
  return bytes;
}

std::vector<Unit> PlanUnits(const ModelConfig& config, Layout layout) {
  const bool fuses = layout == Layout::kGptOss || layout == Layout::kFusedBf16;
  const std::vector<ExpectedTensor> tensors = model::ExpectedTensors(config);
  std::vector<Unit> units;
  std::vector<const ExpectedTensor*> experts;  // of the layer at hand, when they are fused
  for (const ExpectedTensor& tensor : tensors) {
    if (fuses && RoleOf(tensor) == Role::kRoutedExpert) {
      experts.push_back(&tensor);
      continue;
    }
    if (!experts.empty()) AddFusedExperts(layout, std::exchange(experts, {}), config, units);
    Unit unit;
    unit.parts = {{tensor.name, tensor.shape}};
    unit.encoding = EncodingOf(layout, tensor, config);
    unit.pieces = PiecesOf(layout, unit.encoding, tensor);
    units.push_back(std::move(unit));
  }
  QUERN_CHECK(experts.empty(), "the list of tensors ends with an expert");
  return units;
}

std::string_view LayoutDtype(Layout layout) {
  if (layout == Layout::kF32) return "float32";
  return layout == Layout::kF16 ? "float16" : "bfloat16";
}

}  // namespace quern::testing
