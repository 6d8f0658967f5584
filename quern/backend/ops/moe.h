// Mixture of experts: route, gather, grouped GEMM, SwiGLU, combine.
#pragma once

#include "quern/backend/tensor.h"
#include "quern/backend/weights.h"
#include "quern/base/status.h"

namespace quern::backend {

// Where each token's rows went. All i32 but weights.
//   experts  [tokens, slots]  chosen experts, best first          weights [tokens, slots] f32
//   offsets  [experts + 1]    expert e owns sorted rows [offsets[e], offsets[e + 1]), maybe none
//   tokens   [rows]           sorted row -> token (rows = tokens * slots)
//   row_of   [tokens, slots]  (token, slot) -> sorted row
struct Routes {
  Tensor experts, weights, offsets, tokens, row_of;
};

// s = sigmoid(logits); the `slots` experts with the largest s + bias are chosen, ties to the lower
// id; their weights are s (bias left out), divided by (their sum + 1e-20) when `normalize`, then
// times `scale`. All in f32: a bias rounded to bf16 changes which experts are chosen. Order:
// weights are summed best first.
//   logits  [tokens, experts] f32   bias  [experts] f32
// Rows are sorted by expert, then token.
struct RouteArgs {
  Tensor logits, bias;
  bool normalize = true;
  float scale = 1.0f;
  Routes out;
};
Status Validate(const RouteArgs& args);

// y[r] = x[rows[r]].   x [tokens, n]   rows [r] i32, each in [0, tokens)   y [r, n], same type
// For experts, rows = routes.tokens; also picks the rows that need logits. f32, bf16 or i32.
struct GatherRowsArgs {
  Tensor x, rows;
  Tensor y;
};
Status Validate(const GatherRowsArgs& args);

// y[rows[r]] = x[r]; other rows of y stay.   x [r, n]   rows [r] i32, each in [0, m), no two alike
// y [m, n], same type
struct ScatterRowsArgs {
  Tensor x, rows;
  Tensor y;
};
Status Validate(const ScatterRowsArgs& args);

// y[r] = x[r] W_e^T for every sorted row r of expert e. Order, rounding and types as Linear.
//   x  [rows, k]   w  [experts][n, k]   y  [rows, n]; must not overlap x
struct MoeGemmArgs {
  Tensor x;
  const ExpertWeights& w;
  Routes routes;
  Tensor y;
};
Status Validate(const MoeGemmArgs& args);

// y = round(silu(gate)) * up: gate_up holds gate in its first n columns and up in the next n. silu
// rounds to y's type before the product, which rounds again, as the reference implementation does.
//   gate_up [rows, 2 n]   y [rows, n]; same type, must not overlap
struct SwiGluArgs {
  Tensor gate_up;
  Tensor y;
};
Status Validate(const SwiGluArgs& args);

// y[t] = round(sum over slots of weights[t, slot] * rows[row_of[t, slot]]): products rounded to
// f32, added in slot order (best expert first) from 0, in f32.
//   rows [rows, n]   y [tokens, n]
struct CombineArgs {
  Tensor rows;
  Routes routes;
  Tensor y;
};
Status Validate(const CombineArgs& args);

}  // namespace quern::backend
