#include "quern/checkpoint/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <optional>

namespace quern::checkpoint {
namespace {

using ::testing::HasSubstr;

struct Stored {
  Dtype dtype;
  std::vector<int64_t> shape;
};

// Parts over tensors that live as long as the fixture.
class SignatureTest : public ::testing::Test {
 protected:
  Part Make(const std::optional<Stored>& stored, const char* label) {
    if (!stored) return {};
    tensors_.push_back(
        {.name = std::string("m.") + label, .dtype = stored->dtype, .shape = stored->shape});
    return WholePart(&tensors_.back(), label);
  }
  Signature Read(Stored weight, std::optional<Stored> scale, std::optional<Stored> global,
                 Wanted wanted = {}, const char* scale_name = "weight_scale") {
    StoredParts parts;
    parts.weight = Make(weight, "weight");
    parts.scale = Make(scale, scale_name);
    parts.global_scale = Make(global, "weight_scale_2");
    parts.inverse_name = std::string_view(scale_name) == "weight_scale_inv";
    return ReadSignature(parts, kRows, kCols, wanted);
  }

  static constexpr int64_t kRows = 576, kCols = 6144;
  std::deque<TensorInfo> tensors_;
};

TEST_F(SignatureTest, TableOfFormats) {
  struct Case {
    Stored weight;
    std::optional<Stored> scale, global;
    const char* format;
  };
  const Stored fp8{Dtype::kF8E4M3, {576, 6144}};
  const Stored fp4{Dtype::kU8, {576, 3072}};
  const Case cases[] = {
      {{Dtype::kBf16, {576, 6144}}, {}, {}, "unquantized"},
      {{Dtype::kF16, {576, 6144}}, {}, {}, "unquantized"},
      {{Dtype::kF32, {576, 6144}}, {}, {}, "unquantized"},
      {fp8, Stored{Dtype::kF32, {5, 48}}, {}, "fp8_block 128x128"},  // 576 rows: 4.5 blocks
      {fp8, Stored{Dtype::kF32, {5, 1, 48, 1}}, {}, "fp8_block 128x128"},
      {fp8, Stored{Dtype::kF8E8M0, {5, 48}}, {}, "fp8_block 128x128"},
      {fp8, Stored{Dtype::kF32, {576}}, {}, "fp8_channel"},
      {fp8, Stored{Dtype::kBf16, {576, 1}}, {}, "fp8_channel"},
      {fp8, Stored{Dtype::kF32, {}}, {}, "fp8_tensor"},
      {fp8, Stored{Dtype::kF32, {1}}, {}, "fp8_tensor"},
      {fp4, Stored{Dtype::kU8, {576, 192}}, {}, "mxfp4"},
      {fp4, Stored{Dtype::kF8E8M0, {576, 192}}, {}, "mxfp4"},
      {fp4, Stored{Dtype::kF8E4M3, {576, 384}}, Stored{Dtype::kF32, {}}, "nvfp4"},
      {fp4, Stored{Dtype::kF8E4M3, {576, 384}}, Stored{Dtype::kF32, {1}}, "nvfp4"},
  };
  for (const Case& c : cases) {
    const Signature s = Read(c.weight, c.scale, c.global);
    EXPECT_EQ(s.error, "") << s.text;
    EXPECT_EQ(WantedName(s.format), c.format) << s.text;
  }
}

TEST_F(SignatureTest, SaysWhatIsWrong) {
  struct Case {
    Stored weight;
    std::optional<Stored> scale, global;
    const char* error;
  };
  const Stored fp8{Dtype::kF8E4M3, {576, 6144}};
  const Stored fp4{Dtype::kU8, {576, 3072}};
  const Stored f32_scale{Dtype::kF32, {5, 48}};
  const Case cases[] = {
      {{Dtype::kBf16, {576, 3072}}, {}, {}, "want [576, 6144]"},
      {{Dtype::kBf16, {6144, 576}}, {}, {}, "want [576, 6144]"},
      {{Dtype::kBf16, {576 * 6144}}, {}, {}, "want [576, 6144]"},
      {{Dtype::kBf16, {576, 6144}}, f32_scale, {}, "unquantized weight beside a scale"},
      {fp8, {}, {}, "without weight_scale"},
      {fp8,
       Stored{Dtype::kF32, {4, 48}},
       {},
       "scales of shape [4, 48] fit neither blocks"},  // floored
      {fp8, Stored{Dtype::kI32, {5, 48}}, {}, "F32, BF16, F16 or F8_E8M0"},
      {fp8, f32_scale, Stored{Dtype::kF32, {}}, "no second scale"},
      {{Dtype::kF8E5M2, {576, 6144}}, f32_scale, {}, "F8_E5M2 weights are not supported"},
      {{Dtype::kI8, {576, 6144}}, f32_scale, {}, "I8 weights are not supported"},
      {fp4, {}, {}, "packed codes without weight_scale"},
      {{Dtype::kU8, {576, 6144}},
       Stored{Dtype::kU8, {576, 192}},
       {},
       "want [576, 3072] for [576, 6144]"},
      {fp4, Stored{Dtype::kU8, {576, 191}}, {}, "want scales [576, 192]"},
      {fp4, Stored{Dtype::kF32, {576, 192}}, {}, "U8 (E8M0) for MXFP4 or F8_E4M3 for NVFP4"},
      {fp4, Stored{Dtype::kU8, {576, 192}}, Stored{Dtype::kF32, {}}, "no global scale"},
      {fp4, Stored{Dtype::kF8E4M3, {576, 384}}, {}, "without weight_scale_2"},
      {fp4, Stored{Dtype::kF8E4M3, {576, 384}}, Stored{Dtype::kF32, {2}}, "one F32 number"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(Read(c.weight, c.scale, c.global).error, HasSubstr(c.error));
  }
}

TEST_F(SignatureTest, TextNamesEveryPart) {
  EXPECT_EQ(
      Read({Dtype::kU8, {576, 3072}}, Stored{Dtype::kF8E4M3, {576, 384}}, Stored{Dtype::kF32, {}})
          .text,
      "U8 [576, 3072] + weight_scale F8_E4M3 [576, 384] + weight_scale_2 F32 []");
}

// A matrix smaller than a block has one scale whatever the scheme: the numbers are the same.
TEST_F(SignatureTest, TheRuleSettlesWhatOneScaleMeans) {
  const auto read = [&](std::vector<int64_t> shape, Wanted wanted, const char* name) {
    StoredParts parts;
    parts.weight = Make(Stored{Dtype::kF8E4M3, {64, 96}}, "weight");
    parts.scale = Make(Stored{Dtype::kF32, shape}, name);
    parts.inverse_name = std::string_view(name) == "weight_scale_inv";
    const Signature s = ReadSignature(parts, 64, 96, wanted);
    EXPECT_EQ(s.error, "");
    return WantedName(s.format);
  };
  const Wanted block{
      .quantized = true, .format = WeightFormat::kFp8Block, .block_rows = 128, .block_cols = 128};
  const Wanted tensor{.quantized = true, .format = WeightFormat::kFp8Tensor};
  const Wanted channel{.quantized = true, .format = WeightFormat::kFp8Channel};
  EXPECT_EQ(read({1, 1}, block, "weight_scale"), "fp8_block 128x128");
  EXPECT_EQ(read({1, 1}, tensor, "weight_scale"), "fp8_tensor");
  EXPECT_EQ(read({1, 1}, channel, "weight_scale"), "fp8_block 128x128");
  EXPECT_EQ(read({1}, block, "weight_scale_inv"), "fp8_tensor");
  EXPECT_EQ(read({64, 1}, channel, "weight_scale"), "fp8_channel");
  const Wanted small{
      .quantized = true, .format = WeightFormat::kFp8Block, .block_rows = 32, .block_cols = 48};
  EXPECT_EQ(read({2, 2}, small, "weight_scale_inv"), "fp8_block 32x48");
}

TEST_F(SignatureTest, IntegersInWordsAreNamed) {
  StoredParts parts;
  parts.weight = Make(Stored{Dtype::kI32, {576, 768}}, "weight_packed");
  parts.packed_name = true;
  EXPECT_THAT(ReadSignature(parts, kRows, kCols, {}).error, HasSubstr("INT4"));
}

}  // namespace
}  // namespace quern::checkpoint
