#include <algorithm>
#include <cmath>
#include <vector>

#include "quern/backend/host/host_memory.h"
#include "quern/backend/math.h"
#include "quern/backend/ref/ref_ops.h"

namespace quern::backend::ref {
using host::I32;
using host::LoadF32;
using host::RoundTo;
using host::RowPtr;
using host::RowVoid;
using host::StoreF32;

Status Route(const RouteArgs& a) {
  const int64_t tokens = a.logits.dim(0), experts = a.logits.dim(1), slots = a.out.experts.dim(1);
  const float* bias = static_cast<const float*>(a.bias.data);
  std::vector<float> score(static_cast<size_t>(experts)), choice(static_cast<size_t>(experts));
  std::vector<int32_t> counts(static_cast<size_t>(experts) + 1, 0);
  std::vector<uint8_t> taken(static_cast<size_t>(experts));
  for (int64_t t = 0; t < tokens; ++t) {
    const float* logits = RowPtr<float>(a.logits, t);
    for (int64_t e = 0; e < experts; ++e) {
      const size_t i = static_cast<size_t>(e);
      score[i] = Sigmoid(logits[e]);
      choice[i] = score[i] + bias[e];
      if (std::isnan(choice[i])) {
        return Internal(
            "router logit of expert {} is not a number at row {} of the step: the weights or the "
            "activations overflowed",
            e, t);
      }
    }
    std::fill(taken.begin(), taken.end(), 0);
    float sum = 0.0f;
    float* weights = RowPtr<float>(a.out.weights, t);
    for (int64_t s = 0; s < slots; ++s) {
      size_t best = choice.size();
      for (size_t e = 0; e < choice.size(); ++e) {  // ties stay with the lowest id
        if (taken[e] == 0 && (best == choice.size() || choice[e] > choice[best])) best = e;
      }
      taken[best] = 1;
      I32(a.out.experts, t, s) = static_cast<int32_t>(best);
      weights[s] = score[best];
      sum += weights[s];
      ++counts[best + 1];
    }
    for (int64_t s = 0; s < slots; ++s) {
      if (a.normalize) weights[s] = weights[s] / (sum + 1e-20f);
      weights[s] = weights[s] * a.scale;
    }
  }
  // Counting sort by expert keeps tokens ascending within an expert.
  int32_t* offsets = static_cast<int32_t*>(a.out.offsets.data);
  for (size_t e = 1; e < counts.size(); ++e) counts[e] += counts[e - 1];
  std::copy(counts.begin(), counts.end(), offsets);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t s = 0; s < slots; ++s) {
      const int32_t row = counts[static_cast<size_t>(I32(a.out.experts, t, s))]++;
      static_cast<int32_t*>(a.out.tokens.data)[row] = static_cast<int32_t>(t);
      I32(a.out.row_of, t, s) = row;
    }
  }
  return OkStatus();
}

void GatherRows(const GatherRowsArgs& a) {
  const size_t bytes = static_cast<size_t>(a.x.dim(1) * DtypeBytes(a.x.dtype));
  for (int64_t r = 0; r < a.y.dim(0); ++r)
    std::memcpy(RowVoid(a.y, r), RowVoid(a.x, I32(a.rows, r)), bytes);
}

void ScatterRows(const ScatterRowsArgs& a) {
  const size_t bytes = static_cast<size_t>(a.x.dim(1) * DtypeBytes(a.x.dtype));
  for (int64_t r = 0; r < a.x.dim(0); ++r)
    std::memcpy(RowVoid(a.y, I32(a.rows, r)), RowVoid(a.x, r), bytes);
}

void SwiGlu(const SwiGluArgs& a) {
  const int64_t n = a.y.dim(1);
  for (int64_t r = 0; r < a.y.dim(0); ++r) {
    const void* in = RowVoid(a.gate_up, r);
    for (int64_t i = 0; i < n; ++i) {
      const float act = RoundTo(a.y.dtype, Silu(LoadF32(a.gate_up.dtype, in, i)));
      StoreF32(a.y.dtype, RowVoid(a.y, r), i, act * LoadF32(a.gate_up.dtype, in, n + i));
    }
  }
}

void Combine(const CombineArgs& a) {
  const int64_t slots = a.routes.experts.dim(1);
  for (int64_t t = 0; t < a.y.dim(0); ++t) {
    const float* weights = RowPtr<float>(a.routes.weights, t);
    for (int64_t i = 0; i < a.y.dim(1); ++i) {
      float sum = 0.0f;
      for (int64_t s = 0; s < slots; ++s) {
        sum += weights[s] * LoadF32(a.rows.dtype, RowVoid(a.rows, I32(a.routes.row_of, t, s)), i);
      }
      StoreF32(a.y.dtype, RowVoid(a.y, t), i, sum);
    }
  }
}

}  // namespace quern::backend::ref
