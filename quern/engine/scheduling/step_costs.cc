#include "quern/engine/scheduling/step_costs.h"

#include <algorithm>

namespace quern::engine {
namespace {

void Blend(double& average, double value) {
  average = average == 0 ? value : 0.8 * average + 0.2 * value;
}

}  // namespace

void StepCosts::Observe(int64_t decode_rows, int64_t prefill_rows, double seconds) {
  if (prefill_rows == 0) {
    Blend(decode_seconds_, seconds);
  } else if (decode_rows == 0 || decode_seconds_ > 0) {
    const double others = decode_rows == 0 ? 0 : decode_seconds_;
    Blend(prefill_row_seconds_,
          std::max(seconds - others, 0.05 * seconds) / static_cast<double>(prefill_rows));
  }
}

int64_t StepCosts::PrefillRows(bool others_decode, int64_t max_rows) const {
  if (!others_decode) return max_rows;
  if (decode_seconds_ == 0 || prefill_row_seconds_ == 0) return std::min<int64_t>(max_rows, 32);
  const double rows = (kMaxStretch - 1) * decode_seconds_ / prefill_row_seconds_;
  return std::clamp(static_cast<int64_t>(std::min(rows, 1e9)), std::min(kMinPrefillRows, max_rows),
                    max_rows);
}

}  // namespace quern::engine
