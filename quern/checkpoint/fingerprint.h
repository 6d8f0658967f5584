// A short name for the weights of a checkpoint.
#pragma once

#include <string>

#include "quern/checkpoint/checkpoint.h"

namespace quern::checkpoint {

// 16 hexadecimal digits over config.json, all tensors' names, types and shapes, and the first and
// last bytes of some thousand tensors: other weights give another name, without reading hundreds
// of gigabytes.
std::string Fingerprint(const Checkpoint& checkpoint);

}  // namespace quern::checkpoint
