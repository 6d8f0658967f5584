// How many prompt rows fit beside decoding without making the others wait.
#pragma once

#include <cstdint>

namespace quern::engine {

// Learns what rows cost on this machine. Its advice changes speed only, never tokens.
class StepCosts {
 public:
  // While others decode, a step may take this many times a step without prompt rows.
  static constexpr double kMaxStretch = 2.5;
  static constexpr int64_t kMinPrefillRows = 8;  // a prompt always goes on

  void Observe(int64_t decode_rows, int64_t prefill_rows, double seconds);
  // Most prompt rows for the next step, `max_rows` when nobody decodes.
  int64_t PrefillRows(bool others_decode, int64_t max_rows) const;

 private:
  double decode_seconds_ = 0;       // of a step without prompt rows; 0: not seen yet
  double prefill_row_seconds_ = 0;  // that one prompt row adds; 0: not seen yet
};

}  // namespace quern::engine
