// Reader of tests/golden/*.json: what Hugging Face transformers computed (tests/golden/README.md
// describes the fields, tools/goldens makes them).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quern/base/json.h"
#include "quern/base/status.h"
#include "quern/numerics/dtype.h"
#include "quern/testing/checkpoint_writer.h"

namespace quern::testing {

struct Golden {
  struct Row {
    int64_t position = 0;       // of the token whose logits these are, 0-based
    std::vector<float> logits;  // [vocab]
    int32_t argmax = 0;
    float margin = 0.0f;  // largest logit - second
  };
  struct Run {
    std::vector<int32_t> prompt;
    std::vector<Row> rows;
  };
  struct Greedy {
    std::vector<int32_t> prompt;
    std::vector<int32_t> tokens;  // the continuation
    std::vector<float> margins;   // [tokens] largest logit - second, where the token was chosen
    int64_t agreed_tokens = 0;    // on this many, other roundings of the same model agree
    float max_abs_logit = 0.0f;   // over the continuation
  };

  std::string name;
  // The random checkpoint the logits are of. Absent: a stored one.
  std::optional<CheckpointSpec> generated;
  std::string stored_folder;  // beside the golden file; empty when generated
  uint32_t weights_crc32 = 0;
  Dtype compute = Dtype::kF32;  // config.json's "dtype": kF32 or kBf16
  float latent_norm_eps = 0.0f;
  std::vector<Run> runs;
  std::vector<Greedy> greedy;

  // max |difference| / max |logit| that quern promises: 1e-4 in f32, 2e-2 in bf16.
  float bound() const { return compute == Dtype::kF32 ? 1e-4f : 2e-2f; }
};

// kInvalidArgument, naming the file, when a field is missing or of the wrong type.
Result<Golden> ReadGolden(const std::string& path);

// Router of one MoE layer on its own: scores, choice and weights as transformers computes them in
// f32.
struct RouterGolden {
  int64_t num_tokens = 0, hidden_size = 0, num_experts = 0, experts_per_token = 0;
  float routed_scaling_factor = 0.0f;
  bool norm_topk_prob = true;
  std::vector<float> hidden;     // [tokens, hidden]
  std::vector<float> weight;     // [experts, hidden]
  std::vector<float> bias;       // [experts]
  std::vector<int32_t> experts;  // [tokens, experts_per_token] by falling score + bias
  std::vector<float> weights;    // [tokens, experts_per_token]
};
Result<RouterGolden> ReadRouterGolden(const std::string& path);

// Writes the golden's checkpoint into `directory`, or links to the stored one in `golden_folder`;
// config.json's "dtype" becomes the golden's `compute`. Fails when the weights are not those the
// golden was made from (CRC-32).
Status MakeGoldenCheckpoint(const Golden& golden, const std::string& golden_folder,
                            const std::string& directory);

// CRC-32 (IEEE 802.3, reflected), the one of zip files.
uint32_t Crc32(std::string_view bytes);

}  // namespace quern::testing
