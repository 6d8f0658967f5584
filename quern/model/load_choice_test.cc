#include "quern/model/load_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quern::model {
namespace {

using backend::LoadAs;
using checkpoint::ResolvedTensor;

ResolvedTensor Tensor(const std::string& name, WeightFormat format, bool quantizable = true) {
  ResolvedTensor t;
  t.expected.name = name;
  t.expected.shape = {64, 64};
  t.expected.quantizable = quantizable;
  t.format = format;
  return t;
}

const ResolvedTensor kExpert =
    Tensor("model.layers.3.mlp.experts.17.down_proj.weight", WeightFormat::kMxfp4);
const ResolvedTensor kBf16Expert =
    Tensor("model.layers.9.mlp.experts.17.down_proj.weight", WeightFormat::kBf16);
const ResolvedTensor kShared =
    Tensor("model.layers.3.mlp.shared_experts.down_proj.weight", WeightFormat::kBf16);

TEST(LoadChoice, ExpertsByTheirFormatUnlessTold) {
  EXPECT_EQ(LoadChoice(kExpert, {}), LoadAs::kInt8);
  EXPECT_EQ(LoadChoice(kBf16Expert, {}), LoadAs::kStored);
  EXPECT_EQ(LoadChoice(kExpert, {.expert_activations = ExpertActivations::kBf16}), LoadAs::kStored);
  // The dense format is not theirs.
  EXPECT_EQ(LoadChoice(kBf16Expert, {.dense_format = DenseFormat::kInt8}), LoadAs::kStored);
}

TEST(LoadChoice, Int8ActivationsNeedMxfp4Experts) {
  const ComputeOptions int8 = {.expert_activations = ExpertActivations::kInt8};
  EXPECT_TRUE(CheckLoadChoice(kExpert, int8).ok());
  EXPECT_TRUE(CheckLoadChoice(kShared, int8).ok());
  const Status refused = CheckLoadChoice(kBf16Expert, int8);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("layers.9.mlp.experts.17"));
  EXPECT_TRUE(CheckLoadChoice(kBf16Expert, {}).ok());
}

TEST(LoadChoice, DenseFormatLeavesOutWhatDecidesNearTies) {
  for (const auto& [format, as] :
       {std::pair{DenseFormat::kInt8, LoadAs::kInt8}, std::pair{DenseFormat::kFp8, LoadAs::kFp8},
        std::pair{DenseFormat::kStored, LoadAs::kStored}}) {
    const ComputeOptions options = {.dense_format = format};
    EXPECT_EQ(LoadChoice(kShared, options), as);
    EXPECT_EQ(LoadChoice(Tensor("lm_head.weight", WeightFormat::kBf16), options), as);
    EXPECT_EQ(
        LoadChoice(Tensor("model.layers.0.self_attn.o_proj.weight", WeightFormat::kBf16), options),
        as);
    EXPECT_EQ(
        LoadChoice(Tensor("model.layers.3.mlp.gate.weight", WeightFormat::kBf16, false), options),
        LoadAs::kStored);
    EXPECT_EQ(LoadChoice(Tensor("model.layers.0.self_attn.kv_b_proj.weight", WeightFormat::kBf16),
                         options),
              LoadAs::kStored);
  }
}

TEST(LoadChoice, FingerprintNamesWhatMakesOtherBits) {
  checkpoint::PrecisionPlan plan;
  plan.tensors = {kExpert, kShared};
  const ComputeOptions stored = {.expert_activations = ExpertActivations::kBf16};
  const ComputeOptions dense = {.dense_format = DenseFormat::kInt8};
  EXPECT_EQ(FingerprintOf("0123", plan, stored), "0123");
  EXPECT_THAT(FingerprintOf("0123", plan, {}), ::testing::StartsWith("0123-"));
  EXPECT_NE(FingerprintOf("0123", plan, {}), FingerprintOf("0123", plan, dense));
}

}  // namespace
}  // namespace quern::model
