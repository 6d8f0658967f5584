#include "quern/engine/drafting/draft_controller.h"

#include <algorithm>

namespace quern::engine {
namespace {

constexpr double kSequenceMemory = 0.95, kGlobalMemory = 0.995, kCostMemory = 0.98;
constexpr int32_t kRoundsBeforeEnd = 8;  // a sequence gets this many chances
constexpr int64_t kTryEvery = 16;
// Until something was measured: drafts of a small MTP layer usually are right more often than not.
constexpr double kPriorRate = 0.7, kPriorWeight = 4;

}  // namespace

void AcceptanceRates::Observe(int32_t drafted, int32_t num_accepted, double memory) {
  for (int32_t i = 0; i < std::min(drafted, num_accepted + 1); ++i) {
    const size_t at = static_cast<size_t>(i);
    reached[at] = reached[at] * memory + 1;
    accepted[at] = accepted[at] * memory + (i < num_accepted ? 1 : 0);
  }
}

double DraftController::ExpectedTokens(const DraftRecord& record, int32_t depth) const {
  double tokens = 1, chain = 1;
  for (int32_t i = 0; i < depth; ++i) {
    const size_t at = static_cast<size_t>(i);
    const double all =
        (all_.accepted[at] + kPriorWeight * kPriorRate) / (all_.reached[at] + kPriorWeight);
    chain *= (record.rates.accepted[at] + kPriorWeight * all) /
             (record.rates.reached[at] + kPriorWeight);
    tokens += chain;
  }
  return tokens;
}

double DraftController::StepSeconds(double rows) const {
  if (weight_ < 4) return 1 + 0.1 * rows;  // in units of a step; only ratios matter
  const double mean_x = sum_x_ / weight_, mean_y = sum_y_ / weight_;
  const double variance = sum_xx_ / weight_ - mean_x * mean_x;
  // With one row count only, assume that a row adds a tenth.
  double slope = 0.1 * mean_y / mean_x;
  if (variance > 0.01) {
    slope = std::clamp((sum_xy_ / weight_ - mean_x * mean_y) / variance, 0.0, mean_y / mean_x);
  }
  return mean_y + slope * (rows - mean_x);
}

bool DraftController::Starts() {
  if (options_.mode == DraftMode::kOff) return false;
  if (options_.mode == DraftMode::kFixed) return true;
  return Depth({.rounds = kRoundsBeforeEnd}, 1) > 0 || started_++ % kTryEvery == 0;
}

int32_t DraftController::Depth(const DraftRecord& record, int64_t num_decoding) const {
  if (options_.mode != DraftMode::kAuto) return options_.num_drafts;
  const double n = static_cast<double>(std::max<int64_t>(num_decoding, 1));
  const double pass = pass_seconds_ > 0 ? pass_seconds_ : 0.15 * StepSeconds(1);
  int32_t best = 0;
  double best_rate = 0;
  for (int32_t depth = 0; depth <= options_.num_drafts; ++depth) {
    // All sequences are taken to draft alike: the step and the passes are shared by them.
    const double seconds = StepSeconds(n * (1 + depth)) + depth * pass;
    const double rate = ExpectedTokens(record, depth) / seconds;
    if (rate > best_rate) best_rate = rate, best = depth;
  }
  return best == 0 && record.rounds >= kRoundsBeforeEnd ? -1 : std::max(best, 1);
}

void DraftController::ObserveRound(DraftRecord& record, int32_t drafted, int32_t accepted) {
  if (drafted == 0) return;
  ++record.rounds;
  record.drafted += drafted;
  record.accepted += accepted;
  record.rates.Observe(drafted, accepted, kSequenceMemory);
  all_.Observe(drafted, accepted, kGlobalMemory);
}

void DraftController::ObserveStep(int64_t rows, double seconds) {
  const double x = static_cast<double>(rows);
  for (double* sum : {&weight_, &sum_x_, &sum_y_, &sum_xx_, &sum_xy_}) *sum *= kCostMemory;
  weight_ += 1;
  sum_x_ += x;
  sum_y_ += seconds;
  sum_xx_ += x * x;
  sum_xy_ += x * seconds;
}

void DraftController::ObserveDrafting(int32_t passes, double seconds) {
  const double each = seconds / passes;
  pass_seconds_ =
      pass_seconds_ == 0 ? each : kCostMemory * pass_seconds_ + (1 - kCostMemory) * each;
}

}  // namespace quern::engine
