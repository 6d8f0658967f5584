// How many tokens to draft, from what was measured: how often drafts are right, and what a step
// and a draft cost.
#pragma once

#include <array>
#include <cstdint>

#include "quern/engine/engine.h"

namespace quern::engine {

// Acceptance by position: of the rounds that reached draft i, the share that accepted it. Recent
// rounds count more.
struct AcceptanceRates {
  std::array<double, kMaxDrafts> reached{}, accepted{};
  void Observe(int32_t drafted, int32_t num_accepted, double memory);
};

// Of one sequence.
struct DraftRecord {
  AcceptanceRates rates;
  int32_t rounds = 0;
  int64_t drafted = 0, accepted = 0;
};

// The choices change speed only, never tokens. Not thread-safe.
class DraftController {
 public:
  explicit DraftController(const DraftOptions& options) : options_(options) {}

  // Whether a new sequence drafts at all: while drafts do not pay, one in sixteen still tries.
  bool Starts();
  // Drafts for the next round of a sequence that decodes beside `num_decoding - 1` others; -1 when
  // drafting does not pay for it and should end.
  int32_t Depth(const DraftRecord& record, int64_t num_decoding) const;

  void ObserveRound(DraftRecord& record, int32_t drafted, int32_t accepted);
  // A step without prefill rows.
  void ObserveStep(int64_t rows, double seconds);
  // Draft passes of one step: the MTP layer over the new tokens, and each further draft.
  void ObserveDrafting(int32_t passes, double seconds);

  // Expected tokens per round with `depth` drafts, blending the sequence with all others.
  double ExpectedTokens(const DraftRecord& record, int32_t depth) const;

 private:
  double StepSeconds(double rows) const;

  DraftOptions options_;
  AcceptanceRates all_;
  int64_t started_ = 0;
  // Decayed sums of a least-squares line: seconds = a + b * rows.
  double weight_ = 0, sum_x_ = 0, sum_y_ = 0, sum_xx_ = 0, sum_xy_ = 0;
  double pass_seconds_ = 0;
};

}  // namespace quern::engine
