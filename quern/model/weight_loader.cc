#include "quern/model/weight_loader.h"

#include "quern/backend/ops/load.h"
#include "quern/base/log.h"
#include "quern/model/load_choice.h"

namespace quern::model {

using checkpoint::ResolvedTensor;

WeightLoader::WeightLoader(const checkpoint::Checkpoint& checkpoint,
                           const checkpoint::PrecisionPlan& plan, backend::Backend& backend,
                           const LoadOptions& options)
    : checkpoint_(checkpoint), plan_(plan), backend_(backend), options_(options) {
  for (const ResolvedTensor& t : plan.tensors) total_bytes_ += t.stored_bytes;
}

Result<const ResolvedTensor*> WeightLoader::Find(const std::string& name) const {
  const ResolvedTensor* t = plan_.Find(name);
  if (t == nullptr || t->matrix.data == nullptr) return Internal("the plan has no tensor {}", name);
  return t;
}

void WeightLoader::Done(const ResolvedTensor& tensor) {
  if (tensor.weight != nullptr) checkpoint_.Release(*tensor.weight);
  done_bytes_ += tensor.stored_bytes;
  if (options_.progress) options_.progress(done_bytes_, total_bytes_);
}

void WeightLoader::LogError(const ResolvedTensor& tensor, backend::LoadAs as) const {
  if (!spdlog::should_log(spdlog::level::debug)) return;
  const std::optional<double> error = backend::LoadError(tensor.matrix, as);
  if (!error) return;
  log::debug("{}: {}, relative RMS error of the weights {:.3e}", tensor.expected.name,
             backend::DescribeCompute(tensor.format, as), *error);
}

Result<std::unique_ptr<backend::LinearWeights>> WeightLoader::Linear(
    const std::vector<std::string>& modules) {
  std::vector<StoredMatrix> parts;
  std::vector<const ResolvedTensor*> tensors;
  for (const std::string& module : modules) {
    QUERN_ASSIGN(const ResolvedTensor* t, Find(module + ".weight"));
    tensors.push_back(t);
    parts.push_back(t->matrix);
  }
  const backend::LoadAs as = LoadChoice(*tensors.front(), options_.compute);
  QUERN_ASSIGN(std::unique_ptr<backend::LinearWeights> w, backend_.LoadLinear(parts, as));
  for (const ResolvedTensor* t : tensors) {
    LogError(*t, as);
    Done(*t);
  }
  weight_bytes_ += w->bytes();
  return w;
}

Result<std::unique_ptr<backend::ExpertWeights>> WeightLoader::Experts(
    const std::string& prefix, int64_t num_experts, const std::vector<std::string>& parts) {
  std::vector<const ResolvedTensor*> tensors;
  std::vector<StoredMatrix> matrices;
  for (int64_t e = 0; e < num_experts; ++e) {
    for (const std::string& part : parts) {
      QUERN_ASSIGN(const ResolvedTensor* t,
                   Find(fmt::format("{}experts.{}.{}.weight", prefix, e, part)));
      QUERN_TRY(CheckLoadChoice(*t, options_.compute));
      tensors.push_back(t);
      matrices.push_back(t->matrix);
    }
  }
  // One compute format for all experts of a layer: int8 only when each of them allows it.
  backend::LoadAs as = backend::LoadAs::kInt8;
  for (const ResolvedTensor* t : tensors) {
    if (LoadChoice(*t, options_.compute) != as) as = backend::LoadAs::kStored;
  }
  std::vector<std::span<const StoredMatrix>> experts;
  for (size_t e = 0; e < static_cast<size_t>(num_experts); ++e) {
    experts.emplace_back(matrices.data() + e * parts.size(), parts.size());
  }
  QUERN_ASSIGN(std::unique_ptr<backend::ExpertWeights> w, backend_.LoadExperts(experts, as));
  for (const ResolvedTensor* t : tensors) Done(*t);
  weight_bytes_ += w->bytes();
  return w;
}

Result<std::unique_ptr<backend::HeadWeights>> WeightLoader::Heads(const std::string& module,
                                                                  int64_t num_heads,
                                                                  int64_t head_rows, int64_t first,
                                                                  int64_t count, bool transpose,
                                                                  bool last) {
  QUERN_ASSIGN(const ResolvedTensor* t, Find(module + ".weight"));
  QUERN_ASSIGN(std::unique_ptr<backend::HeadWeights> w,
               backend_.LoadHeads(t->matrix, num_heads, head_rows, first, count, transpose));
  if (last) Done(*t);
  weight_bytes_ += w->bytes();
  return w;
}

Result<std::unique_ptr<backend::TableWeights>> WeightLoader::Table(const std::string& module) {
  QUERN_ASSIGN(const ResolvedTensor* t, Find(module + ".weight"));
  QUERN_ASSIGN(std::unique_ptr<backend::TableWeights> w, backend_.LoadTable(t->matrix));
  Done(*t);
  weight_bytes_ += w->bytes();
  return w;
}

Result<Vector> WeightLoader::F32Vector(const std::string& name) {
  QUERN_ASSIGN(const ResolvedTensor* t, Find(name));
  std::vector<float> values(static_cast<size_t>(t->matrix.cols));
  DecodeRow(t->matrix, 0, values.data());
  Vector v;
  const int64_t n = t->matrix.cols;
  QUERN_ASSIGN(v.buffer, backend_.Allocate(n * static_cast<int64_t>(sizeof(float))));
  v.tensor = backend::Tensor(Dtype::kF32, {n}, v.buffer->data());
  QUERN_TRY(backend_.CopyToDevice(values.data(), v.tensor));
  Done(*t);
  weight_bytes_ += v.tensor.bytes();
  return v;
}

}  // namespace quern::model
