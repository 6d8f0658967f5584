// Kernels of the attention ops; heads lie across SIMD lanes, 16 at a time.
#pragma once

#include "quern/backend/ops/attention.h"

namespace quern::backend::cpu {

// Scratch floats a worker needs for one head panel of MlaAttention, or for IndexScores.
int64_t AttentionScratchFloats(int64_t width, int64_t rank);

// Heads [16 * panel, + 16) of row t: writes their part of args.y.
void AttendPanel(const MlaAttentionArgs& args, int64_t t, int64_t panel, float* scratch);

// Scores of positions [begin, end) for row t: scores[s - begin].
void IndexScores(const IndexSelectArgs& args, int64_t t, int64_t begin, int64_t end, float* scores,
                 float* scratch);

}  // namespace quern::backend::cpu
