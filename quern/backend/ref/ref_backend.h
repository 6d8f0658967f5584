// The reference backend: every op as plain loops, weights decoded as numerics/stored_matrix.h says.
// Slow on purpose; the judge of the others.
#pragma once

#include <memory>

#include "quern/backend/backend.h"

namespace quern::backend {

std::unique_ptr<Backend> CreateRefBackend();

}  // namespace quern::backend
