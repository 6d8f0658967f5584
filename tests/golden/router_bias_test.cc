// Experts 1e-3 apart in score + bias, at biases around 34.5, are chosen as transformers chooses
// them in f32. In bf16 both sums are the same number.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "quern/backend/cpu/cpu_backend.h"
#include "quern/backend/ref/ref_backend.h"
#include "quern/numerics/bf16.h"
#include "quern/testing/golden.h"

namespace quern {
namespace {

using backend::Backend;
using backend::Tensor;
using testing::RouterGolden;

// A tensor on a backend with memory of its own.
struct Owned {
  Owned(Backend& be, Dtype dtype, std::initializer_list<int64_t> shape) {
    tensor = Tensor(dtype, shape, nullptr);
    auto allocated = be.Allocate(tensor.bytes());
    QUERN_CHECK(allocated.ok(), "{}", allocated.status().ToString());
    buffer = *std::move(allocated);
    tensor.data = buffer->data();
  }
  std::unique_ptr<backend::Buffer> buffer;
  Tensor tensor;
};

struct Choice {
  std::vector<int32_t> experts;
  std::vector<float> weights;
};

// The router of one MoE layer: f32 GEMM, then Route.
Choice RouteAll(Backend& be, const RouterGolden& golden, const std::vector<float>& bias) {
  const int64_t tokens = golden.num_tokens, experts = golden.num_experts;
  const int64_t slots = golden.experts_per_token;
  StoredMatrix stored;
  stored.format = WeightFormat::kF32;
  stored.rows = experts;
  stored.cols = golden.hidden_size;
  stored.data = reinterpret_cast<const std::byte*>(golden.weight.data());
  stored.row_bytes = golden.hidden_size * 4;
  auto weight = be.LoadLinear(std::span(&stored, 1), backend::LoadAs::kStored);
  QUERN_CHECK(weight.ok(), "{}", weight.status().ToString());

  Owned x(be, Dtype::kF32, {tokens, golden.hidden_size}),
      logits(be, Dtype::kF32, {tokens, experts});
  Owned b(be, Dtype::kF32, {experts});
  Owned chosen(be, Dtype::kI32, {tokens, slots}), weights(be, Dtype::kF32, {tokens, slots});
  Owned offsets(be, Dtype::kI32, {experts + 1}), sorted(be, Dtype::kI32, {tokens * slots});
  Owned row_of(be, Dtype::kI32, {tokens, slots});
  const auto check = [](const Status& status) {
    QUERN_CHECK(status.ok(), "{}", status.ToString());
  };
  check(be.CopyToDevice(golden.hidden.data(), x.tensor));
  check(be.CopyToDevice(bias.data(), b.tensor));
  check(be.Linear({x.tensor, **weight, logits.tensor}));
  check(be.Route({logits.tensor,
                  b.tensor,
                  golden.norm_topk_prob,
                  golden.routed_scaling_factor,
                  {chosen.tensor, weights.tensor, offsets.tensor, sorted.tensor, row_of.tensor}}));
  Choice out;
  out.experts.resize(golden.experts.size());
  out.weights.resize(golden.weights.size());
  check(be.CopyToHost(chosen.tensor, out.experts.data()));
  check(be.CopyToHost(weights.tensor, out.weights.data()));
  return out;
}

class RouterBiasTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto golden = testing::ReadRouterGolden(QUERN_SOURCE_DIR "/tests/golden/router-bias.json");
    ASSERT_TRUE(golden.ok()) << golden.status().ToString();
    golden_ = *std::move(golden);
  }
  RouterGolden golden_;
};

TEST_F(RouterBiasTest, ChoosesAndWeighsAsTransformersDoesInF32) {
  const auto cpu = backend::CreateCpuBackend(2), ref = backend::CreateRefBackend();
  for (Backend* be : {cpu.get(), ref.get()}) {
    const Choice got = RouteAll(*be, golden_, golden_.bias);
    EXPECT_EQ(got.experts, golden_.experts) << be->name();
    for (size_t i = 0; i < got.weights.size(); ++i) {
      EXPECT_NEAR(got.weights[i], golden_.weights[i], 1e-5f) << be->name() << " slot " << i;
    }
  }
}

// The golden would be worth nothing if a bias of less precision passed it.
TEST_F(RouterBiasTest, Bf16BiasChoosesOthers) {
  std::vector<float> rounded;
  for (float b : golden_.bias) rounded.push_back(Bf16ToF32(F32ToBf16(b)));
  const auto ref = backend::CreateRefBackend();
  const Choice got = RouteAll(*ref, golden_, rounded);
  int changed = 0;
  const size_t slots = static_cast<size_t>(golden_.experts_per_token);
  for (size_t t = 0; t < golden_.experts.size(); t += slots) {
    const auto set = [&](const std::vector<int32_t>& all) {
      return std::set<int32_t>(&all[t], &all[t] + slots);
    };
    if (set(got.experts) != set(golden_.experts)) ++changed;
  }
  EXPECT_GE(changed, golden_.num_tokens / 3);
}

}  // namespace
}  // namespace quern
