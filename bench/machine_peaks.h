// What the machine can do at best, measured in the same run as the kernels: the denominators of the
// roofline fractions.
#pragma once

#include "quern/base/thread_pool.h"

namespace quern::bench {

struct MachinePeaks {
  double read_bytes_per_s = 0;  // sequential reads of memory far larger than the caches
  double fma_ops_per_s = 0;     // f32 fused multiply-adds in registers, 2 operations each
  double int8_ops_per_s = 0;    // u8 x s8 products added in 32 bits, in registers; 0: not measured
};

// Best of several passes, all threads of `pool` together. Takes about a second.
MachinePeaks MeasurePeaks(ThreadPool& pool);

}  // namespace quern::bench
