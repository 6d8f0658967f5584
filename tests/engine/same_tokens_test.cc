// "Same request, same tokens": whatever the engine does to be fast, each request's tokens and
// logprobs are, bit for bit, those it gets alone, cold, in one chunk and without drafts.
#include <gtest/gtest.h>

#include <condition_variable>
#include <fstream>
#include <mutex>
#include <random>

#include "quern/backend/cpu/cpu_backend.h"
#include "quern/base/json.h"
#include "quern/engine/engine.h"
#include "quern/model/model.h"
#include "quern/testing/checkpoint_writer.h"
#include "quern/text/tokenizer.h"

namespace quern {
namespace {

using engine::Request;
using engine::TokenEvent;

// Under a sanitizer each mix takes many times as long, and shows as much.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint32_t kNumMixes = 8, kNumNanoMixes = 2, kNumLongMixes = 1;
constexpr int64_t kLongPrompt = 1000;
#else
constexpr uint32_t kNumMixes = 160, kNumNanoMixes = 40, kNumLongMixes = 4;
constexpr int64_t kLongPrompt = 5000;
#endif

struct Outcome {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  int32_t num_cached = 0;
  engine::FinishReason finish = engine::FinishReason::kNone;
  std::string error;
};

void ExpectSame(const Outcome& got, const Outcome& want) {
  EXPECT_EQ(got.error, "");
  EXPECT_EQ(got.finish, want.finish);
  EXPECT_EQ(got.tokens, want.tokens);
  EXPECT_EQ(got.logprobs, want.logprobs);
}

// Submits all requests and waits for all of them.
std::vector<Outcome> RunAll(engine::Engine& engine, const std::vector<Request>& requests) {
  std::vector<Outcome> outcomes(requests.size());
  std::mutex mutex;
  std::condition_variable done;
  size_t left = requests.size();
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto sink = [&, i](const TokenEvent& e) {
      std::lock_guard lock(mutex);
      if (e.has_token) {
        outcomes[i].tokens.push_back(e.token);
        outcomes[i].logprobs.push_back(e.logprob.logprob);
      }
      if (e.finish == engine::FinishReason::kNone) return;
      outcomes[i].finish = e.finish;
      outcomes[i].error = e.error_message;
      outcomes[i].num_cached = e.num_cached_tokens;
      if (--left == 0) done.notify_all();
    };
    const auto id = engine.Submit(requests[i], sink);
    QUERN_CHECK(id.ok(), "{}", id.status().ToString());
  }
  std::unique_lock lock(mutex);
  done.wait(lock, [&] { return left == 0; });
  return outcomes;
}

using Rng = std::mt19937;

int64_t Uniform(Rng& rng, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(rng);
}

// A model on backends of 1, 2 and 3 threads, and what its prompts are made of.
struct Subject {
  std::vector<std::unique_ptr<backend::Backend>> backends;
  std::vector<std::unique_ptr<model::Model>> models;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::vector<int32_t> text;  // prompts are pieces of it; empty: random tokens

  Subject(const std::string& path, const std::string& tokenizer_path) {
    for (int threads = 1; threads <= 3; ++threads) {
      backends.push_back(backend::CreateCpuBackend(threads));
      std::vector<std::string> warnings;
      models.push_back(model::LoadModel(path, *backends.back(), {}, warnings).value());
    }
    tokenizer = text::Tokenizer::FromFile(tokenizer_path).value();
  }

  std::vector<int32_t> Prompt(Rng& rng, int64_t count) const {
    if (!text.empty()) {
      const auto begin =
          text.begin() + Uniform(rng, 0, static_cast<int64_t>(text.size()) - count - 1);
      return {begin, begin + count};
    }
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < count; ++i)
      tokens.push_back(static_cast<int32_t>(Uniform(rng, 0, 511)));
    return tokens;
  }
};

// Random weights: every path of the model, drafts that are hardly ever right.
const Subject& Tiny() {
  static const Subject* tiny = [] {
    const std::string path = ::testing::TempDir() + "same_tokens";
    testing::CheckpointSpec spec;
    spec.config = *testing::PresetConfig("tiny-dsa");
    spec.config["max_position_embeddings"] = 8192;
    spec.layout = testing::Layout::kQuarkMxfp4;
    QUERN_CHECK(testing::WriteCheckpoint(path, spec).ok(), "{}", path);
    return new Subject(path, QUERN_SOURCE_DIR "/tests/data/tokenizer/tokenizer.json");
  }();
  return *tiny;
}

// Trained weights going on with conversations they know: most drafts are right, some are not.
const Subject& Nano() {
  static const Subject* nano = [] {
    const std::string path = QUERN_SOURCE_DIR "/models/quern-nano-mxfp4";
    auto* subject = new Subject(path, path + "/tokenizer.json");
    for (const char* set : {"quern", "json", "arithmetic"}) {
      std::ifstream file(fmt::format("{}/models/evals/{}.jsonl", QUERN_SOURCE_DIR, set));
      for (std::string line; std::getline(file, line);) {
        const Json messages = Json::parse(line)["messages"];
        const auto ids =
            subject->tokenizer
                ->Encode("[gMASK]<sop><|user|>" + messages.back()["content"].get<std::string>() +
                         "<|assistant|><think></think>")
                .value();
        subject->text.insert(subject->text.end(), ids.begin(), ids.end());
      }
    }
    QUERN_CHECK(subject->text.size() > 5000, "{} tokens", subject->text.size());
    return subject;
  }();
  return *nano;
}

Request RandomRequest(Rng& rng, std::vector<int32_t> prompt, int64_t max_tokens) {
  Request r;
  r.prompt = std::move(prompt);
  r.max_tokens = static_cast<int32_t>(max_tokens);
  r.num_top_logprobs = 0;
  r.sampling.temperature = Uniform(rng, 0, 1) == 0 ? 0.0f : 0.8f;
  r.sampling.seed = rng();
  if (Uniform(rng, 0, 2) == 0) r.sampling.top_p = 0.9f;
  if (Uniform(rng, 0, 2) == 0) r.sampling.top_k = 20;
  if (Uniform(rng, 0, 3) == 0) r.sampling.frequency_penalty = 0.7f;
  if (Uniform(rng, 0, 3) == 0) r.sampling.repetition_penalty = 1.2f;
  if (Uniform(rng, 0, 3) == 0) r.stop_token_ids = {static_cast<int32_t>(Uniform(rng, 0, 511))};
  r.priority = static_cast<int32_t>(Uniform(rng, -1, 1));
  return r;
}

// Some prompts begin like others, some are asked several times with other seeds (n > 1).
std::vector<Request> RandomMix(Rng& rng, const Subject& subject, int64_t max_prompt) {
  const std::vector<int32_t> common = subject.Prompt(rng, Uniform(rng, 1, max_prompt));
  std::vector<Request> requests;
  for (int64_t count = Uniform(rng, 1, 6); count > 0; --count) {
    std::vector<int32_t> prompt;
    if (Uniform(rng, 0, 1) == 0) {
      prompt.assign(common.begin(),
                    common.begin() + Uniform(rng, 0, static_cast<int64_t>(common.size())));
    }
    const std::vector<int32_t> own = subject.Prompt(rng, Uniform(rng, 1, 40));
    prompt.insert(prompt.end(), own.begin(), own.end());
    const int64_t max_tokens = Uniform(rng, 1, 24);
    for (int64_t n = Uniform(rng, 0, 4) == 0 ? 3 : 1; n > 0; --n) {
      requests.push_back(RandomRequest(rng, prompt, max_tokens));
    }
  }
  return requests;
}

std::string Describe(const engine::EngineOptions& o, int threads) {
  return fmt::format("chunk {} running {} pages {} cache {} drafts {} mode {} threads {}",
                     o.prefill_chunk, o.max_running, o.kv_cache_bytes, o.prefix_cache,
                     o.draft.num_drafts, static_cast<int>(o.draft.mode), threads);
}

int64_t PageBytes(const Subject& subject, const engine::EngineOptions& o) {
  return model::MakeKvLayout(
             subject.models[0]->config(),
             {.with_mtp = o.draft.mode != engine::DraftMode::kOff, .dtype = o.kv_dtype})
      .bytes_per_page();
}

std::unique_ptr<engine::Engine> Start(const Subject& subject, int threads,
                                      const engine::EngineOptions& options) {
  return engine::CreateEngine(*subject.models[static_cast<size_t>(threads - 1)], *subject.tokenizer,
                              options)
      .value();
}

std::vector<Outcome> Alone(const Subject& subject, const std::vector<Request>& requests,
                           model::KvDtype kv_dtype = model::KvDtype::kAuto) {
  std::vector<Outcome> outcomes;
  engine::EngineOptions options;
  options.kv_dtype = kv_dtype;
  options.prefix_cache = false;
  options.max_running = 1;
  options.draft.mode = engine::DraftMode::kOff;
  for (const Request& r : requests) {
    options.max_model_len = std::max<int64_t>(options.max_model_len,
                                              static_cast<int64_t>(r.prompt.size()) + r.max_tokens);
  }
  options.kv_cache_bytes = PageBytes(subject, options) * ((options.max_model_len + 63) / 64);
  const auto alone = Start(subject, 2, options);
  for (const Request& r : requests) outcomes.push_back(RunAll(*alone, {r})[0]);
  return outcomes;
}

engine::EngineOptions RandomOptions(Rng& rng, const Subject& subject, int64_t longest,
                                    model::KvDtype kv_dtype) {
  engine::EngineOptions o;
  o.kv_dtype = kv_dtype;
  o.max_model_len = longest;
  const int64_t chunks[] = {1, 3, 17, 64, 100, 512};
  o.prefill_chunk = static_cast<int32_t>(chunks[Uniform(rng, 0, 5)]);
  o.max_running = static_cast<int32_t>(Uniform(rng, 0, 2) == 0 ? Uniform(rng, 1, 3) : 64);
  o.prefix_cache = Uniform(rng, 0, 3) != 0;
  o.draft.mode = static_cast<engine::DraftMode>(Uniform(rng, 0, 2));
  const int32_t depths[] = {1, 3, 5};
  o.draft.num_drafts = depths[Uniform(rng, 0, 2)];
  // Room for little more than the longest: requests lose their pages.
  if (Uniform(rng, 0, 1) == 0)
    o.kv_cache_bytes = PageBytes(subject, o) * ((longest + 63) / 64 + Uniform(rng, 0, 2));
  return o;
}

// Runs the requests twice, together, under random options.
void ExpectSameTokens(Rng& rng, const Subject& subject, const std::vector<Request>& requests) {
  // FP8 keys give other tokens, but always the same.
  const auto kv_dtype =
      static_cast<model::KvDtype>(Uniform(rng, 0, 5) < 4 ? 0 : Uniform(rng, 2, 3));
  const std::vector<Outcome> want = Alone(subject, requests, kv_dtype);
  int64_t longest = 1;
  for (const Request& r : requests) {
    longest = std::max<int64_t>(longest, static_cast<int64_t>(r.prompt.size()) + r.max_tokens);
  }
  const engine::EngineOptions options = RandomOptions(rng, subject, longest, kv_dtype);
  const int threads = static_cast<int>(Uniform(rng, 1, 3));
  SCOPED_TRACE(Describe(options, threads));
  const auto engine = Start(subject, threads, options);
  for (const char* round : {"cold", "warm"}) {
    SCOPED_TRACE(round);
    const std::vector<Outcome> got = RunAll(*engine, requests);
    for (size_t i = 0; i < got.size(); ++i) {
      SCOPED_TRACE("request " + std::to_string(i));
      ExpectSame(got[i], want[i]);
    }
  }
  engine->Shutdown(1000);
  EXPECT_EQ(engine->Stats().kv_pages_used, 0);
}

TEST(SameTokens, InRandomMixes) {
  for (uint32_t seed = 0; seed < kNumMixes; ++seed) {
    SCOPED_TRACE("mix " + std::to_string(seed));
    Rng rng(seed);
    ExpectSameTokens(rng, Tiny(), RandomMix(rng, Tiny(), 200));
    if (HasFailure()) return;
  }
}

TEST(SameTokens, InRandomMixesOnNano) {
  for (uint32_t seed = 0; seed < kNumNanoMixes; ++seed) {
    SCOPED_TRACE("mix " + std::to_string(seed));
    Rng rng(2000 + seed);
    ExpectSameTokens(rng, Nano(), RandomMix(rng, Nano(), 300));
    if (HasFailure()) return;
  }
}

// Else the mixes above would show nothing about drafts.
TEST(SameTokens, NanoAcceptsDraftsAndRejectsSome) {
  Rng rng(9);
  const auto engine =
      Start(Nano(), 2, {.max_model_len = 1000, .draft = {engine::DraftMode::kFixed}});
  std::vector<Request> requests;
  for (int i = 0; i < 4; ++i) {
    requests.push_back(RandomRequest(rng, Nano().Prompt(rng, 100), 60));
    requests.back().stop_token_ids.clear();
  }
  RunAll(*engine, requests);
  const engine::EngineStats stats = engine->Stats();
  EXPECT_GT(stats.accepted[0], stats.drafted[0] / 4);
  EXPECT_GT(stats.accepted[2], 0);
  EXPECT_LT(stats.accepted[4], stats.drafted[4]);
}

TEST(SameTokens, InMixesOfLongPrompts) {
  for (uint32_t seed = 0; seed < kNumLongMixes; ++seed) {
    SCOPED_TRACE("mix " + std::to_string(seed));
    Rng rng(1000 + seed);
    std::vector<Request> requests = RandomMix(rng, Tiny(), kLongPrompt);
    requests.resize(std::min<size_t>(requests.size(), 4));
    ExpectSameTokens(rng, Tiny(), requests);
    if (HasFailure()) return;
  }
}

TEST(SameTokens, RequestsLosePagesAndGoOnAlike) {
  Rng rng(77);
  std::vector<Request> requests;
  for (int i = 0; i < 8; ++i) requests.push_back(RandomRequest(rng, Tiny().Prompt(rng, 60), 150));
  for (Request& r : requests) r.stop_token_ids.clear();
  const std::vector<Outcome> want = Alone(Tiny(), requests);
  engine::EngineOptions options;
  options.max_model_len = 220;
  options.draft.mode = engine::DraftMode::kFixed;
  options.kv_cache_bytes = PageBytes(Tiny(), options) * 10;
  const auto engine = Start(Tiny(), 2, options);
  const std::vector<Outcome> got = RunAll(*engine, requests);
  for (size_t i = 0; i < got.size(); ++i) ExpectSame(got[i], want[i]);
  EXPECT_GT(engine->Stats().preemptions, 0);
}

TEST(SameTokens, PagesFromDiskGiveTheSameTokens) {
  Rng rng(31);
  std::vector<Request> requests;
  for (int i = 0; i < 3; ++i) {
    requests.push_back(RandomRequest(rng, Tiny().Prompt(rng, 150 + 70 * i), 20));
  }
  const std::vector<Outcome> want = Alone(Tiny(), requests);
  engine::EngineOptions options;
  options.max_model_len = 400;
  options.cache_dir = ::testing::TempDir() + "same_tokens_pages";
  RunAll(*Start(Tiny(), 2, options), requests);  // the engine ends here, and keeps its pages
  const auto engine = Start(Tiny(), 2, options);
  const std::vector<Outcome> got = RunAll(*engine, requests);
  for (size_t i = 0; i < got.size(); ++i) {
    ExpectSame(got[i], want[i]);
    EXPECT_EQ(got[i].num_cached, (150 + 70 * static_cast<int>(i) - 1) / 64 * 64);
  }
  EXPECT_GT(engine->Stats().pages_restored, 0);
}

TEST(SameTokens, CachedTokensAreThePageFlooredCommonPrefix) {
  Rng rng(5);
  const auto engine = Start(Tiny(), 2, {.max_model_len = 1000});
  const std::vector<int32_t> first = Tiny().Prompt(rng, 300);
  Request r = RandomRequest(rng, first, 40);
  r.stop_token_ids.clear();
  const Outcome one = RunAll(*engine, {r})[0];
  EXPECT_EQ(one.num_cached, 0);
  EXPECT_EQ(RunAll(*engine, {r})[0].num_cached, 256);

  // The next turn of the chat: answer included.
  std::vector<int32_t> next = first;
  next.insert(next.end(), one.tokens.begin(), one.tokens.end());
  const std::vector<int32_t> more = Tiny().Prompt(rng, 30);
  next.insert(next.end(), more.begin(), more.end());
  r.prompt = next;
  EXPECT_EQ(RunAll(*engine, {r})[0].num_cached, 320);

  // A prompt that is all cached is still computed from its last page on.
  r.prompt.assign(first.begin(), first.begin() + 128);
  EXPECT_EQ(RunAll(*engine, {r})[0].num_cached, 64);
  // n > 1 at once: one computes the prompt, the others wait for its pages.
  std::vector<Request> same(4, RandomRequest(rng, Tiny().Prompt(rng, 200), 3));
  const std::vector<Outcome> outcomes = RunAll(*engine, same);
  int64_t cached = 0;
  for (const Outcome& o : outcomes) cached += o.num_cached;
  EXPECT_EQ(cached, 3 * 192);
}

}  // namespace
}  // namespace quern
