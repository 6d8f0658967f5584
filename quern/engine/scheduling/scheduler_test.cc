#include "quern/engine/scheduling/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "quern/text/tokenizer.h"

namespace quern::engine {
namespace {

class SchedulerTest : public testing::Test {
 protected:
  SchedulerTest()
      : tokenizer_(
            *text::Tokenizer::FromFile(QUERN_SOURCE_DIR "/tests/data/tokenizer/tokenizer.json")) {}

  // A sequence of `len` prompt tokens, all equal to `token`.
  std::shared_ptr<Sequence> Add(Scheduler& scheduler, int32_t token, int64_t len,
                                int32_t max_tokens = 10) {
    Request r;
    r.prompt.assign(static_cast<size_t>(len), token);
    r.max_tokens = max_tokens;
    r.sampling.temperature = 0;
    auto s = std::make_shared<Sequence>(
        next_id_, r, [](const TokenEvent&) {}, *tokenizer_, 500);
    s->order = static_cast<double>(next_id_++);
    s->submitted = Clock::now();
    scheduler.Add(s);
    return s;
  }
  // What the engine does after a step: everything planned is computed, and tokens are drawn.
  static void Settle(Scheduler& scheduler, const StepPlan& plan) {
    for (const StepPart& part : plan.parts) {
      Sequence& s = *part.sequence;
      s.num_computed = part.end;
      if (part.draws) {
        std::vector<float> logits(500, 0.0f);
        logits[42] = 1;
        s.Advance(logits);
      }
      scheduler.ShareFullPages(s);
      if (s.finished()) scheduler.Remove(part.sequence);
    }
  }
  static const StepPart* PartOf(const StepPlan& plan, const std::shared_ptr<Sequence>& s) {
    const auto it = std::find_if(plan.parts.begin(), plan.parts.end(),
                                 [&](const StepPart& p) { return p.sequence == s; });
    return it == plan.parts.end() ? nullptr : &*it;
  }

  std::unique_ptr<text::Tokenizer> tokenizer_;
  RequestId next_id_ = 1;
  cache::PagePool pool_{16};
  cache::PrefixTree tree_{pool_};
};

TEST_F(SchedulerTest, MixesPromptRowsAndDecoding) {
  Scheduler scheduler({}, pool_, tree_);
  const auto a = Add(scheduler, 1, 5);
  StepPlan plan = scheduler.Plan(512);
  ASSERT_EQ(plan.parts.size(), 1u);
  EXPECT_EQ(plan.prefill_rows, 5);
  EXPECT_TRUE(plan.parts[0].draws);
  Settle(scheduler, plan);
  EXPECT_TRUE(scheduler.AnyDecoding());

  const auto b = Add(scheduler, 2, 100);
  plan = scheduler.Plan(30);
  EXPECT_EQ(plan.decode_rows, 1);
  EXPECT_EQ(plan.prefill_rows, 30);
  EXPECT_FALSE(PartOf(plan, b)->draws);
  EXPECT_EQ(PartOf(plan, a)->begin, 5);
}

TEST_F(SchedulerTest, SharesPagesOfPromptsThatRunNow) {
  Scheduler scheduler({}, pool_, tree_);
  const auto a = Add(scheduler, 1, 200), b = Add(scheduler, 1, 200);
  StepPlan plan = scheduler.Plan(512);
  EXPECT_NE(PartOf(plan, a), nullptr);
  EXPECT_EQ(PartOf(plan, b), nullptr) << "waits for a's pages";
  Settle(scheduler, plan);
  plan = scheduler.Plan(512);
  ASSERT_NE(PartOf(plan, b), nullptr);
  EXPECT_EQ(b->num_cached, 192);
  EXPECT_TRUE(std::equal(a->pages.begin(), a->pages.begin() + 3, b->pages.begin()));
  EXPECT_NE(a->pages[3], b->pages[3]) << "the page in progress is nobody else's";
  EXPECT_EQ(scheduler.prefix_hits(), 192);
}

TEST_F(SchedulerTest, TheLastInLineLosesItsPagesAndComesBack) {
  Scheduler scheduler({}, pool_, tree_);
  // Two sequences that together need more than the 16 pages.
  const auto a = Add(scheduler, 1, 500, 100), b = Add(scheduler, 2, 440, 100);
  std::vector<int32_t> lost;
  for (int step = 0; step < 400 && !(a->finished() && b->finished()); ++step) {
    const StepPlan plan = scheduler.Plan(512);
    ASSERT_FALSE(plan.parts.empty());
    if (!a->finished()) {
      EXPECT_NE(PartOf(plan, a), nullptr) << "the first never waits, step " << step;
    }
    Settle(scheduler, plan);
  }
  EXPECT_TRUE(a->finished());
  EXPECT_TRUE(b->finished());
  EXPECT_GT(scheduler.num_preemptions(), 0);
  EXPECT_EQ(pool_.num_used(), tree_.num_evictable()) << "all that is left is cache";
}

TEST_F(SchedulerTest, LongPromptsDoNotStarveBehindShortOnes) {
  Scheduler scheduler({}, pool_, tree_);
  const auto big = Add(scheduler, 1, 900, 20);
  std::vector<std::shared_ptr<Sequence>> small;
  for (int32_t i = 0; i < 20; ++i) small.push_back(Add(scheduler, 10 + i, 60, 20));
  int steps = 0;
  while (!big->finished() && steps < 200) {
    Settle(scheduler, scheduler.Plan(64));
    ++steps;
  }
  EXPECT_LE(steps, 40) << "its 900 tokens in chunks of 64, then 20 more";
}

TEST_F(SchedulerTest, DraftsAreDroppedBeforeAnybodysPages) {
  Scheduler scheduler({}, pool_, tree_);
  const auto a = Add(scheduler, 1, 16 * 64 - 9, 9);
  Settle(scheduler, scheduler.Plan(2000));
  a->drafts = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const StepPlan plan = scheduler.Plan(512);
  ASSERT_EQ(plan.parts.size(), 1u);
  EXPECT_LE(plan.parts[0].num_drafts, 8) << "no more than it may still hold";
  EXPECT_EQ(scheduler.num_preemptions(), 0);
}

}  // namespace
}  // namespace quern::engine
