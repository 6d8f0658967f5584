// A quantization dialect: what one family of tools writes into config.json's quantization_config,
// read as rules that say for any module which format its weight is stored in. The file's own word
// (signature.h) is not asked here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "quern/checkpoint/problems.h"
#include "quern/numerics/stored_matrix.h"

namespace quern::checkpoint {

// What a rule wants a weight to be stored as.
struct Wanted {
  bool quantized = false;                     // false: bf16, f16 or f32, whichever the file holds
  WeightFormat format = WeightFormat::kBf16;  // when quantized
  int64_t block_rows = 0, block_cols = 0;     // kFp8Block only

  bool operator==(const Wanted&) const = default;
};

// "unquantized", "mxfp4", "fp8_block 128x128".
std::string WantedName(const Wanted& wanted);

// The rule that decided about a module.
struct Rule {
  Wanted wanted;
  std::string
      text;  // names the field, the index or key, and the pattern: "exclude[17] \"lm_head\""
  bool fallback = false;  // nothing named the module; this is what holds for the rest
};

// Rules of one checkpoint. Not thread-safe: it remembers which rules have matched.
class Dialect {
 public:
  virtual ~Dialect() = default;

  // "quark", "fp8 (block 128x128)": for people.
  virtual std::string name() const = 0;
  // The rule for a module by its checkpoint name, "model.layers.3.mlp.experts.17.down_proj". Works
  // for any name; asking about all modules of the file, quantizable or not, is what tells which
  // rules match nothing.
  virtual Rule Decide(std::string_view module) = 0;
  // The field that lists modules to leave alone, for messages: "exclude", "ignore". Empty when
  // there is none.
  virtual std::string skip_field() const = 0;
  // The format of activations the config asks for, empty when it asks for none. quern keeps
  // activations in bf16.
  virtual std::string activations() const { return {}; }
  // After all Decide() calls: rules that matched nothing (warnings) and patterns too costly to
  // match (errors).
  virtual void Report(Problems& problems) const = 0;
};

}  // namespace quern::checkpoint
