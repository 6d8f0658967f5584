// From resolved tensors to weights on a backend, with progress and memory given back as it goes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "quern/backend/backend.h"
#include "quern/checkpoint/checkpoint.h"
#include "quern/checkpoint/precision_plan.h"
#include "quern/model/model.h"

namespace quern::model {

// A small f32 vector on the backend (norm weights, biases).
struct Vector {
  std::unique_ptr<backend::Buffer> buffer;
  backend::Tensor tensor;  // [n]
};

// Names below are checkpoint names without ".weight". Each stored tensor is asked for once; its
// file pages are released after repacking. Everything it refers to must outlive it.
class WeightLoader {
 public:
  WeightLoader(const checkpoint::Checkpoint& checkpoint, const checkpoint::PrecisionPlan& plan,
               backend::Backend& backend, const LoadOptions& options);

  // Rows of several modules stacked: {"..q_a_proj", "..kv_a_proj_with_mqa"}. All of them are of one
  // kind for LoadChoice. Weights made in another format than stored: their error is logged (debug).
  Result<std::unique_ptr<backend::LinearWeights>> Linear(const std::vector<std::string>& modules);
  // Expert e stacks prefix + "experts.e." + part for each part.
  Result<std::unique_ptr<backend::ExpertWeights>> Experts(const std::string& prefix,
                                                          int64_t num_experts,
                                                          const std::vector<std::string>& parts);
  // See Backend::LoadHeads; the module's pages are released when `last`.
  Result<std::unique_ptr<backend::HeadWeights>> Heads(const std::string& module, int64_t num_heads,
                                                      int64_t head_rows, int64_t first,
                                                      int64_t count, bool transpose, bool last);
  Result<std::unique_ptr<backend::TableWeights>> Table(const std::string& module);
  // `name` is the whole tensor name.
  Result<Vector> F32Vector(const std::string& name);

  int64_t weight_bytes() const { return weight_bytes_; }

 private:
  Result<const checkpoint::ResolvedTensor*> Find(const std::string& name) const;
  void Done(const checkpoint::ResolvedTensor& tensor);
  void LogError(const checkpoint::ResolvedTensor& tensor, backend::LoadAs as) const;

  const checkpoint::Checkpoint& checkpoint_;
  const checkpoint::PrecisionPlan& plan_;
  backend::Backend& backend_;
  const LoadOptions& options_;
  uint64_t done_bytes_ = 0, total_bytes_ = 0;
  int64_t weight_bytes_ = 0;
};

}  // namespace quern::model
