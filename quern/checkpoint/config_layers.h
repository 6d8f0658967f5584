// Which layers are MoE and which own an indexer: several spellings in config.json, one answer.
#pragma once

#include "quern/checkpoint/config.h"
#include "quern/checkpoint/config_fields.h"

namespace quern::checkpoint {

// Fills config.is_moe from "mlp_layer_types" or "first_k_dense_replace" and "moe_layer_freq". The
// MTP layer is MoE. Wants num_layers and num_mtp_layers set.
void ReadMlpLayers(const ConfigFields& fields, ModelConfig& config);

// Fills config.indexer_types from "indexer_types", else "index_topk_pattern" (F and S), else the
// schedule full(i) <=> max(i - index_skip_topk_offset + 1, 0) mod index_topk_freq == 0 (offset 2
// and frequency 1 when absent). The MTP layer always owns an indexer. Wants has_indexer() decided.
void ReadIndexerLayers(const ConfigFields& fields, ModelConfig& config);

}  // namespace quern::checkpoint
