// Which tensor is loaded in which compute format: one function, asked by the loader and by `quern
// inspect`.
#pragma once

#include <string>

#include "quern/backend/weights.h"
#include "quern/checkpoint/precision_plan.h"
#include "quern/model/model.h"

namespace quern::model {

// What to ask of the backend for `tensor`:
//   routed experts   kInt8 as expert_activations says: auto takes it where the tensor is MXFP4
//   other Linears    as dense_format says
//   the router, the indexer's weights_proj, kv_b_proj, vectors and tables   kStored, always: the
//     first two decide between near-ties; kv_b_proj is applied per head, its K half transposed
backend::LoadAs LoadChoice(const checkpoint::ResolvedTensor& tensor, const ComputeOptions& options);

// The checkpoint's fingerprint, and behind it 8 hexadecimal digits over how each tensor is computed
// where that is not as stored: what makes other bits has another name, so that keys kept on disk
// are not taken for it.
std::string FingerprintOf(const std::string& checkpoint, const checkpoint::PrecisionPlan& plan,
                          const ComputeOptions& options);

// kInvalidArgument, with tensor and fix, when --expert-activations int8 was asked for an expert
// whose stored format has no such product.
Status CheckLoadChoice(const checkpoint::ResolvedTensor& tensor, const ComputeOptions& options);

}  // namespace quern::model
