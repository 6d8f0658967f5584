// Writes whole checkpoints for tests: config.json, weights in any layout, optionally a tokenizer.
// The same spec gives the same bytes on every machine.
#pragma once

#include <cstdint>
#include <string>

#include "quern/base/json.h"
#include "quern/base/status.h"
#include "quern/testing/layouts.h"
#include "quern/testing/random_weights.h"

namespace quern::testing {

struct CheckpointSpec {
  Json config;  // config.json; "dtype" and "quantization_config" are set from the layout
  Layout layout = Layout::kBf16;
  RandomWeights weights;
  // 1: model.safetensors. More: model-0000i-of-0000n.safetensors and an index. Fewer files come out
  // when single tensors are larger than a shard's share. A tensor and its scales may end up in
  // different shards.
  int num_shards = 1;
  // Headers only; the files have their full size as holes. For checkpoints larger than the machine.
  bool sparse = false;
  // Copies tokenizer.json, tokenizer_config.json, chat_template.jinja and generation_config.json,
  // those that exist.
  std::string tokenizer_dir;
};

// Writes into `directory`, which is created when missing; its model*.safetensors* files are removed
// first. kInvalidArgument for a config that ParseModelConfig refuses or whose sizes the layout
// cannot store (MXFP4 wants multiples of 32).
Status WriteCheckpoint(const std::string& directory, const CheckpointSpec& spec);

// The config of a preset: "tiny-dsa", "tiny-lite", "tiny-edge" (dims off the 128 grid, for FP8 edge
// blocks), "mid-dsa" (for benchmarks), "glm-5.2", "glm-5", "glm-4.7-flash".
Result<Json> PresetConfig(const std::string& name);
std::string PresetNames();

// Into how many files a full-size preset is usually cut (GLM-5.2: 282 in bf16, 141 in FP8); 1 for
// others.
int TypicalShards(const std::string& preset, Layout layout);

}  // namespace quern::testing
