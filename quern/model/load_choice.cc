#include "quern/model/load_choice.h"

#include "quern/backend/ops/load.h"
#include "quern/base/hash.h"

namespace quern::model {
namespace {

using backend::LoadAs;
using checkpoint::ResolvedTensor;

bool IsRoutedExpert(const ResolvedTensor& tensor) {
  return tensor.expected.name.find(".mlp.experts.") != std::string::npos;
}

}  // namespace

LoadAs LoadChoice(const ResolvedTensor& tensor, const ComputeOptions& options) {
  if (!tensor.expected.quantizable || tensor.expected.shape.size() != 2) return LoadAs::kStored;
  if (IsRoutedExpert(tensor)) {
    const bool int8 = options.expert_activations != ExpertActivations::kBf16 &&
                      tensor.format == WeightFormat::kMxfp4;
    return int8 ? LoadAs::kInt8 : LoadAs::kStored;
  }
  if (tensor.expected.name.ends_with(".kv_b_proj.weight")) return LoadAs::kStored;
  switch (options.dense_format) {
    case DenseFormat::kInt8:
      return LoadAs::kInt8;
    case DenseFormat::kFp8:
      return LoadAs::kFp8;
    case DenseFormat::kStored:
      break;
  }
  return LoadAs::kStored;
}

std::string FingerprintOf(const std::string& checkpoint, const checkpoint::PrecisionPlan& plan,
                          const ComputeOptions& options) {
  Fnv1a hash;
  bool as_stored = true;
  for (const ResolvedTensor& tensor : plan.tensors) {
    const LoadAs as = LoadChoice(tensor, options);
    if (backend::ComputeFormatOf(tensor.format, as) == backend::ComputeFormat::kStored) continue;
    as_stored = false;
    hash.Add(tensor.expected.name);
    hash.Add(backend::DescribeCompute(tensor.format, as));
  }
  if (as_stored) return checkpoint;
  return fmt::format("{}-{:08x}", checkpoint, hash.value() >> 32);
}

Status CheckLoadChoice(const ResolvedTensor& tensor, const ComputeOptions& options) {
  if (options.expert_activations != ExpertActivations::kInt8 || !IsRoutedExpert(tensor) ||
      tensor.format == WeightFormat::kMxfp4) {
    return OkStatus();
  }
  return InvalidArgument(
      "--expert-activations int8: {} is stored as {}, and int8 activations need MXFP4 experts; "
      "auto takes int8 where that is so",
      tensor.expected.name, WeightFormatName(tensor.format));
}

}  // namespace quern::model
