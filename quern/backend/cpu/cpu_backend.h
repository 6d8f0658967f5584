// The CPU backend: Highway kernels, weights repacked into panels of 16 rows, a pool of threads.
#pragma once

#include <memory>

#include "quern/backend/backend.h"

namespace quern::backend {

// num_threads = 0: one per core this process may run on.
std::unique_ptr<Backend> CreateCpuBackend(int num_threads = 0);

}  // namespace quern::backend
