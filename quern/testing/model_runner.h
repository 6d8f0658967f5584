// Runs a loaded model over token lists the way an engine would: pages, chunks, ragged batches.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "quern/cache/kv_cache.h"
#include "quern/model/model.h"

namespace quern::testing {

// Owns a cache of its own. Failures are CHECK failures: the callers are tests.
class ModelRunner {
 public:
  ModelRunner(model::Model& model, int64_t num_pages);

  // Logits [rows, vocab] of every row of `tokens`, one sequence from position 0, `chunk` rows a
  // step. Pages are taken in descending order, so that page numbers differ from positions.
  std::vector<float> Run(std::span<const int32_t> tokens, int64_t chunk);

  // Several sequences in one ragged batch, one step; logits [rows, vocab] of each.
  std::vector<std::vector<float>> RunTogether(const std::vector<std::vector<int32_t>>& sequences);

  // `count` tokens by largest logit (ties to the lower id) after `prompt`, and the logits of each
  // step.
  std::vector<int32_t> Greedy(std::span<const int32_t> prompt, int64_t count);

  // A run of rows of one sequence for a step.
  struct Rows {
    std::span<const int32_t> tokens;
    int64_t first_position = 0;
  };
  // One step; sequence i has pages [i * pages_each, ...) of the table.
  std::vector<float> Step(std::span<const Rows> sequences, int64_t pages_each);

 private:
  model::Model& model_;
  std::unique_ptr<cache::KvCache> cache_;
};

// Deterministic token ids below `vocab`, never the same id in a long run.
std::vector<int32_t> MakeTokens(int64_t count, int64_t vocab, uint64_t seed);

}  // namespace quern::testing
