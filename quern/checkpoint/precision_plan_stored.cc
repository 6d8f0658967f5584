#include "quern/checkpoint/precision_plan_stored.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace quern::checkpoint {
namespace {

enum class Role { kWeight, kPacked, kScale, kInverseScale, kGlobal, kGlobalDivisor, kUnused };

struct Companion {
  std::string_view name;  // after "<module>."
  Role role;
  bool alias = false;
};

constexpr Companion kCompanions[] = {
    {"weight", Role::kWeight},
    {"weight_packed", Role::kPacked},
    {"weight_scale", Role::kScale},
    {"weight_scale_inv", Role::kInverseScale},
    {"weight_scale_2", Role::kGlobal},
    {"weight_global_scale", Role::kGlobalDivisor},
    {"weight_quantizer.scale", Role::kScale, true},
    {"weight_quantizer.0.scale", Role::kScale, true},
    {"weight_quantizer.1.scale", Role::kGlobal, true},
    // Scales of activations, which quern does not quantize.
    {"input_scale", Role::kUnused},
    {"input_scale_2", Role::kUnused},
    {"input_global_scale", Role::kUnused},
    {"input_quantizer.scale", Role::kUnused},
    {"input_quantizer.1.scale", Role::kUnused},
    {"output_scale", Role::kUnused},
    {"output_quantizer.scale", Role::kUnused},
};

const Companion* FindCompanion(std::string_view name) {
  for (const Companion& companion : kCompanions) {
    if (companion.name == name) return &companion;
  }
  return nullptr;
}

// False when the place is taken already.
bool Place(const TensorInfo& tensor, const Companion& companion, StoredParts& parts) {
  const auto put = [&](Part& part) {
    if (part.there()) return false;
    part = WholePart(&tensor, companion.name);
    return true;
  };
  switch (companion.role) {
    case Role::kWeight:
      return put(parts.weight);
    case Role::kPacked:
      if (!put(parts.weight)) return false;
      return parts.packed_name = true;
    case Role::kScale:
      return put(parts.scale);
    case Role::kInverseScale:
      if (!put(parts.scale)) return false;
      return parts.inverse_name = true;
    case Role::kGlobal:
      return put(parts.global_scale);
    case Role::kGlobalDivisor:
      if (!put(parts.global_scale)) return false;
      return parts.global_divides = true;
    case Role::kUnused:
      return true;
  }
  return false;
}

struct ExpertName {
  std::string_view experts;  // "model.layers.3.mlp.experts"
  int64_t expert = 0;
  std::string_view leaf;  // "gate_proj"
};

std::optional<ExpertName> ParseExpertName(std::string_view module) {
  constexpr std::string_view kExperts = ".experts.";
  const size_t at = module.find(kExperts);
  if (at == std::string_view::npos) return std::nullopt;
  const char* const begin = module.data() + at + kExperts.size();
  const char* const end = module.data() + module.size();
  ExpertName name;
  const auto [digits_end, error] = std::from_chars(begin, end, name.expert);
  if (error != std::errc() || digits_end == end || *digits_end != '.') return std::nullopt;
  name.experts = module.substr(0, at + kExperts.size() - 1);
  name.leaf = module.substr(static_cast<size_t>(digits_end + 1 - module.data()));
  return name;
}

// Takes out of a part of shape [experts, n, ...] the rows of one expert that start at `first`,
// `count` of them, each `step` rows from the last.
void SliceRows(Part& part, int64_t expert, int64_t first, int64_t count, int64_t step) {
  const std::vector<int64_t> whole = std::move(part.shape);
  int64_t row_elements = 1;
  for (size_t i = 2; i < whole.size(); ++i) row_elements *= whole[i];
  const int64_t row_bytes = row_elements * DtypeBytes(part.dtype());
  part.shape.assign(whole.begin() + 1, whole.end());
  part.shape[0] = count;
  part.offset = static_cast<uint64_t>((expert * whole[1] + first) * row_bytes);
  part.row_bytes = step * row_bytes;
}

}  // namespace

StoredTensors::StoredTensors(const Checkpoint& checkpoint)
    : tensors_(checkpoint.tensors()), used_(checkpoint.tensors().size(), false) {}

const TensorInfo* StoredTensors::Take(std::string_view name) {
  const auto it = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const TensorInfo& tensor, std::string_view wanted) { return tensor.name < wanted; });
  if (it == tensors_.end() || it->name != name) return nullptr;
  used_[static_cast<size_t>(it - tensors_.begin())] = true;
  return &*it;
}

std::optional<FoundModule> StoredTensors::TakeModule(std::string_view module) {
  // Names of one module are neighbours in the sorted list: one search finds all of them.
  const std::string prefix = std::string(module) + ".";
  auto it = std::lower_bound(
      tensors_.begin(), tensors_.end(), prefix,
      [](const TensorInfo& tensor, const std::string& wanted) { return tensor.name < wanted; });
  FoundModule found;
  size_t taken[std::size(kCompanions)];
  size_t num_taken = 0;
  int64_t unused = 0, aliases = 0;
  for (; it != tensors_.end() && it->name.compare(0, prefix.size(), prefix) == 0; ++it) {
    const Companion* companion = FindCompanion(std::string_view(it->name).substr(prefix.size()));
    if (companion == nullptr || !Place(*it, *companion, found.parts)) continue;
    taken[num_taken++] = static_cast<size_t>(it - tensors_.begin());
    unused += companion->role == Role::kUnused;
    aliases += companion->alias;
  }
  if (!found.parts.weight.there()) return std::nullopt;
  for (size_t i = 0; i < num_taken; ++i) used_[taken[i]] = true;
  num_unused_companions_ += unused;
  num_aliases_ += aliases;
  return found;
}

const StoredTensors::Fused& StoredTensors::FindFused(std::string_view experts, bool gate_up) {
  const std::string base = gate_up ? "gate_up_proj" : "down_proj";
  const std::string module = fmt::format("{}.{}", experts, base);
  const auto [it, fresh] = fused_.try_emplace(module);
  Fused& fused = it->second;
  if (!fresh) return fused;
  fused.module = module;
  const auto take = [&](const char* suffix, std::string& label) {
    const TensorInfo* tensor = Take(module + suffix);
    if (tensor != nullptr) label = base + suffix;
    return tensor;
  };
  fused.weight = take("", fused.weight_label);
  if (fused.weight == nullptr) {
    fused.weight = take("_blocks", fused.weight_label);
    fused.interleaved = gate_up && fused.weight != nullptr;
  }
  if (fused.weight == nullptr) return fused;
  for (const char* suffix :
       {"_scales", "_scale_inv", "_scale", "_weight_scale_inv", "_weight_scale"}) {
    if (fused.scale != nullptr) break;
    fused.scale = take(suffix, fused.scale_label);
    fused.inverse_name = fused.scale != nullptr && std::string_view(suffix).ends_with("_inv");
  }
  for (const char* suffix : {"_input_scale", "_activation_scale"}) {
    num_unused_companions_ += Take(module + suffix) != nullptr;
  }
  return fused;
}

std::optional<FoundModule> StoredTensors::TakeExpert(std::string_view module, int64_t num_experts,
                                                     int64_t rows, int64_t cols,
                                                     int64_t block_rows) {
  const auto name = ParseExpertName(module);
  if (!name) return std::nullopt;
  const bool gate = name->leaf == "gate_proj", up = name->leaf == "up_proj";
  if (!gate && !up && name->leaf != "down_proj") return std::nullopt;
  const Fused& fused = FindFused(name->experts, gate || up);
  if (fused.weight == nullptr) return std::nullopt;

  FoundModule found;
  found.stored_module = fused.module;
  StoredParts& parts = found.parts;
  parts.weight = WholePart(fused.weight, fused.weight_label);
  parts.scale = WholePart(fused.scale, fused.scale_label);
  parts.inverse_name = fused.inverse_name;

  std::vector<int64_t>& shape = parts.weight.shape;
  const int64_t all_rows = gate || up ? 2 * rows : rows;
  if (shape.size() == 4 && shape[3] == 16) {  // blocks of 32 FP4 codes
    shape = {shape[0], shape[1], cols % 32 == 0 && shape[2] == cols / 32 ? cols / 2 : -1};
  }
  if (shape.size() != 3 || shape[0] != num_experts || shape[1] != all_rows ||
      name->expert >= num_experts || (shape[2] != cols && shape[2] * 2 != cols)) {
    found.error =
        fmt::format("{} holds {}, want [{}, {}, {}] (or packed FP4: {} bytes a row)",
                    fused.weight->name, DescribePart(WholePart(fused.weight, fused.weight_label)),
                    num_experts, all_rows, cols, cols / 2);
    return found;
  }
  // Where this matrix's rows are among the expert's.
  const int64_t step = fused.interleaved ? 2 : 1;
  const int64_t first = !up ? 0 : fused.interleaved ? 1 : rows;
  SliceRows(parts.weight, name->expert, first, rows, step);
  if (!parts.scale.there()) return found;

  std::vector<int64_t>& scale = parts.scale.shape;
  if (scale.empty() || scale[0] != num_experts || fused.scale->bytes == 0) {
    found.error = fmt::format("{} holds {}, want scales of {} experts", fused.scale->name,
                              DescribePart(parts.scale), num_experts);
    return found;
  }
  const int64_t scale_rows = scale.size() > 1 ? scale[1] : 1;
  const int64_t block_grid = (all_rows + block_rows - 1) / block_rows;
  if (scale.size() == 1) scale.push_back(1);
  if (scale_rows == all_rows) {
    SliceRows(parts.scale, name->expert, first, rows, step);
  } else if (scale_rows == block_grid && scale_rows > 1 && rows % block_rows == 0) {
    SliceRows(parts.scale, name->expert, up ? rows / block_rows : 0, rows / block_rows, 1);
  } else if (scale_rows == 1 || all_rows == rows) {
    // One scale for gate and up together, or the grid of down_proj.
    SliceRows(parts.scale, name->expert, 0, scale_rows, 1);
  } else {
    found.error = fmt::format(
        "{} holds {}, which cannot be divided between gate_proj and up_proj of {} rows each",
        fused.scale->name, DescribePart(WholePart(fused.scale, fused.scale_label)), rows);
  }
  return found;
}

}  // namespace quern::checkpoint
