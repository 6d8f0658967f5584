// A checkpoint without quantization_config: every weight is bf16, f16 or f32, as its tensor says.
#include "quern/checkpoint/dialects/dialects.h"

namespace quern::checkpoint {
namespace {

class Unquantized : public Dialect {
 public:
  std::string name() const override { return "unquantized"; }
  Rule Decide(std::string_view) override {
    return {.wanted = {}, .text = "unquantized checkpoint", .fallback = true};
  }
  std::string skip_field() const override { return {}; }
  void Report(Problems&) const override {}
};

}  // namespace

std::unique_ptr<Dialect> MakeUnquantized() { return std::make_unique<Unquantized>(); }

}  // namespace quern::checkpoint
