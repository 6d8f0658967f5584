// Tensors of a checkpoint that no expected tensor asked for: harmless extras, copies, and errors by
// name.
#pragma once

#include <string>
#include <vector>

#include "quern/checkpoint/config.h"
#include "quern/checkpoint/precision_plan_stored.h"

namespace quern::checkpoint {

// Looks at every tensor that is not marked as used:
//   rope tables and scales of KV caches                     a note in `notes`
//   embeddings and output heads stored a second time        must equal the first, byte for byte: an
//   error if not, a warning
//                                                           when `read` is false, so that they
//                                                           cannot be compared
//   indexer tensors of layers without an indexer            an error that names the layers
//   tensors of layers that the config does not have         an error that names the layers
//   all others                                              an error each kind
void JudgeExtras(const Checkpoint& checkpoint, const ModelConfig& config, StoredTensors& stored,
                 bool read, std::vector<std::string>& notes, Problems& problems);

}  // namespace quern::checkpoint
