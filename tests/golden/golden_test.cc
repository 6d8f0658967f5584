// quern against Hugging Face transformers: logits, greedy continuations and routing of random
// models, as stored in this folder. README.md describes the files; tools/goldens makes them.
#include "quern/testing/golden.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>

#include "quern/backend/cpu/cpu_backend.h"
#include "quern/testing/model_runner.h"

namespace quern {
namespace {

namespace fs = std::filesystem;
using testing::Golden;
using testing::ModelRunner;

const char kFolder[] = QUERN_SOURCE_DIR "/tests/golden";
constexpr int64_t kNumPages = 68;  // 4352 tokens
// Under a sanitizer long prompts take minutes, and show no more than short ones.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kMaxPrompt = 300;
#else
constexpr size_t kMaxPrompt = 4096;
#endif

std::vector<std::string> GoldenNames() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".json" && entry.path().stem() != "router-bias") {
      names.push_back(entry.path().stem());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

float MaxAbs(std::span<const float> values) {
  float largest = 0.0f;
  for (float v : values) largest = std::max(largest, std::fabs(v));
  return largest;
}

// max |got - want| / max |want|; infinite when anything is not a number.
float Deviation(std::span<const float> got, std::span<const float> want) {
  float largest = 0.0f;
  for (size_t i = 0; i < want.size(); ++i) {
    const float difference = std::fabs(got[i] - want[i]);
    if (!(difference <= largest)) largest = std::isfinite(difference) ? difference : HUGE_VALF;
  }
  return largest / MaxAbs(want);
}

int32_t ArgMax(std::span<const float> row) {
  return static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

class GoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto golden = testing::ReadGolden(std::string(kFolder) + "/" + GetParam() + ".json");
    ASSERT_TRUE(golden.ok()) << golden.status().ToString();
    golden_ = *std::move(golden);
    // Builds of several kinds may run this at once.
    path_ = fmt::format("{}golden_{}_{}", ::testing::TempDir(), getpid(), GetParam());
    const Status made = testing::MakeGoldenCheckpoint(golden_, kFolder, path_);
    ASSERT_TRUE(made.ok()) << made.ToString();
    model::LoadOptions options;
    options.latent_norm_eps = golden_.latent_norm_eps;
    // transformers multiplies decoded weights with activations in the model's type.
    options.compute.expert_activations = model::ExpertActivations::kBf16;
    std::vector<std::string> warnings;
    auto loaded = model::LoadModel(path_, *backend_, options, warnings);
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    model_ = *std::move(loaded);
  }

  void TearDown() override { fs::remove_all(path_); }

  std::span<const float> Row(std::span<const float> logits, int64_t row) const {
    const size_t vocab = static_cast<size_t>(model_->config().vocab_size);
    return logits.subspan(static_cast<size_t>(row) * vocab, vocab);
  }

  std::unique_ptr<backend::Backend> backend_ = backend::CreateCpuBackend(2);
  std::string path_;
  Golden golden_;
  std::unique_ptr<model::Model> model_;
};

TEST_P(GoldenTest, LogitsAreThoseOfTransformers) {
  ModelRunner runner(*model_, kNumPages);
  for (const Golden::Run& run : golden_.runs) {
    if (run.prompt.size() > kMaxPrompt) continue;
    const std::vector<float> logits = runner.Run(run.prompt, /*chunk=*/64);
    EXPECT_EQ(runner.Run(run.prompt, /*chunk=*/7), logits) << "chunks of 7 against 64";
    for (const Golden::Row& want : run.rows) {
      const std::span<const float> got = Row(logits, want.position);
      ASSERT_EQ(got.size(), want.logits.size());
      const float deviation = Deviation(got, want.logits);
      EXPECT_LE(deviation, golden_.bound()) << "position " << want.position;
      if (want.margin > 2 * golden_.bound() * MaxAbs(want.logits)) {
        EXPECT_EQ(ArgMax(got), want.argmax) << "position " << want.position;
      }
      std::printf("  position %3d: deviation %.2g of max |logit|\n",
                  static_cast<int>(want.position), static_cast<double>(deviation));
    }
  }
}

// Free running, up to the first token that a difference within the bound could change.
TEST_P(GoldenTest, GreedyContinuationIsThatOfTransformers) {
  ModelRunner runner(*model_, kNumPages);
  for (const Golden::Greedy& want : golden_.greedy) {
    size_t clear = 0;
    const float least = 2 * golden_.bound() * want.max_abs_logit;
    while (clear < want.tokens.size() && want.margins[clear] > least) ++clear;
    if (golden_.compute == Dtype::kF32) {
      ASSERT_EQ(clear, want.tokens.size()) << "an f32 golden must stay clear of ties";
    }
    const std::vector<int32_t> got =
        runner.Greedy(want.prompt, static_cast<int64_t>(want.tokens.size()));
    const std::vector<int32_t> got_clear(got.begin(), got.begin() + static_cast<long>(clear));
    const std::vector<int32_t> want_clear(want.tokens.begin(),
                                          want.tokens.begin() + static_cast<long>(clear));
    EXPECT_EQ(got_clear, want_clear);
    const auto same = std::mismatch(got.begin(), got.end(), want.tokens.begin());
    std::printf("  after %d tokens: %d of %d equal, %d clear of ties\n",
                static_cast<int>(want.prompt.size()), static_cast<int>(same.first - got.begin()),
                static_cast<int>(got.size()), static_cast<int>(clear));
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest, ::testing::ValuesIn(GoldenNames()),
                         [](const auto& param_info) {
                           std::string name = param_info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(GoldenFolder, HoldsEveryKindOfCase) {
  const std::vector<std::string> names = GoldenNames();
  for (const char* name :
       {"tiny-dsa-f32", "tiny-dsa-bf16", "calm-dsa-bf16", "tiny-lite-f32", "calm-lite-bf16",
        "layout-fp8-block", "layout-quark-mxfp4", "saved-by-transformers", "exported-by-quark"}) {
    EXPECT_TRUE(std::count(names.begin(), names.end(), name)) << name;
  }
}

TEST(Crc32, OfTheUsualCheckString) { EXPECT_EQ(testing::Crc32("123456789"), 0xCBF43926u); }

}  // namespace
}  // namespace quern
