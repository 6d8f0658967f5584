#include "quern/cache/prefix_tree.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace quern::cache {
namespace {

std::vector<int32_t> PageOf(int32_t first) {
  std::vector<int32_t> tokens(64);
  for (int32_t i = 0; i < 64; ++i) tokens[static_cast<size_t>(i)] = first + i;
  return tokens;
}

class PrefixTreeTest : public testing::Test {
 protected:
  // Adds a page below `parent`, which the caller has locked.
  PrefixTree::Node* Add(PrefixTree::Node* parent, int32_t first, bool draft_keys = true) {
    std::vector<int32_t> page;
    if (!pool_.Take(1, page)) {
      EXPECT_TRUE(tree_.MakeRoom(1));
      EXPECT_TRUE(pool_.Take(1, page));
    }
    return tree_.Insert(parent, PageOf(first), page[0], draft_keys);
  }
  PagePool pool_{4};
  PrefixTree tree_{pool_};
};

TEST_F(PrefixTreeTest, FindsWhatWasInsertedAndNothingElse) {
  PrefixTree::Node* a = Add(tree_.root(), 0);
  PrefixTree::Node* b = Add(a, 100);
  EXPECT_EQ(tree_.Find(tree_.root(), PageOf(0)), a);
  EXPECT_EQ(tree_.Find(a, PageOf(100)), b);
  EXPECT_EQ(tree_.Find(tree_.root(), PageOf(100)), nullptr);
  std::vector<int32_t> other = PageOf(0);
  other[63] = 7;
  EXPECT_EQ(tree_.Find(tree_.root(), other), nullptr);
  EXPECT_EQ(b->parent(), a);
  EXPECT_EQ(tree_.num_pages(), 2);
}

TEST_F(PrefixTreeTest, TheSecondPageWithTheSameTokensGoesBack) {
  PrefixTree::Node* a = Add(tree_.root(), 0);
  EXPECT_EQ(Add(tree_.root(), 0), a);
  EXPECT_EQ(tree_.num_pages(), 1);
  EXPECT_EQ(pool_.num_used(), 1);
  tree_.Unlock(a);
  EXPECT_EQ(tree_.num_evictable(), 0) << "the first holder still has it";
  tree_.Unlock(a);
  EXPECT_EQ(tree_.num_evictable(), 1);
}

TEST_F(PrefixTreeTest, DropsTheLeastRecentlyUsedLeavesFirstAndNeverLockedOnes) {
  PrefixTree::Node* a = Add(tree_.root(), 0);
  PrefixTree::Node* b = Add(a, 100);
  tree_.Unlock(b);
  PrefixTree::Node* c = Add(tree_.root(), 200);
  tree_.Unlock(c);
  PrefixTree::Node* held = Add(tree_.root(), 300);
  EXPECT_EQ(tree_.num_evictable(), 3);
  tree_.Lock(b);  // used again: now c is the oldest
  tree_.Unlock(b);
  std::vector<int32_t> dropped;
  tree_.OnEvict([&](const PrefixTree::Node& n) { dropped.push_back(n.tokens()[0]); });
  EXPECT_TRUE(tree_.MakeRoom(1));
  EXPECT_EQ(dropped, (std::vector<int32_t>{200}));
  EXPECT_FALSE(tree_.MakeRoom(4));
  EXPECT_EQ(dropped, (std::vector<int32_t>{200, 100, 0})) << "children before their parents";
  EXPECT_EQ(tree_.Find(tree_.root(), PageOf(300)), held);
  EXPECT_EQ(pool_.num_used(), 1);
  EXPECT_EQ(tree_.num_evicted(), 3);
}

TEST_F(PrefixTreeTest, APageBelowOneWithoutDraftKeysHasNone) {
  PrefixTree::Node* a = Add(tree_.root(), 0, false);
  EXPECT_FALSE(Add(a, 100, true)->has_draft_keys());
}

// Sessions of random common beginnings against a plain model: a set of page paths.
TEST(PrefixTreeRandomTest, HitsEqualThePageFlooredCommonPrefix) {
  std::mt19937 rng(7);
  PagePool pool(100000);
  PrefixTree tree(pool);
  std::vector<std::vector<int32_t>> sessions;
  for (int round = 0; round < 1000; ++round) {
    std::vector<int32_t> tokens;
    if (!sessions.empty() && rng() % 4 != 0) {  // goes on from somewhere within an earlier one
      const std::vector<int32_t>& from = sessions[rng() % sessions.size()];
      tokens.assign(from.begin(), from.begin() + static_cast<ptrdiff_t>(rng() % (from.size() + 1)));
    }
    for (size_t more = rng() % 300 + 1; more-- > 0;)
      tokens.push_back(static_cast<int32_t>(rng() % 3));
    size_t longest = 0;  // in tokens, whole pages that some earlier session filled
    for (const auto& earlier : sessions) {
      const size_t n = std::min(earlier.size(), tokens.size());
      size_t common = 0;
      while (common < n && earlier[common] == tokens[common]) ++common;
      longest = std::max(longest, common / 64 * 64);
    }
    PrefixTree::Node* node = tree.root();
    size_t begin = 0;
    while (begin + 64 <= tokens.size()) {
      PrefixTree::Node* next = tree.Find(node, std::span(tokens).subspan(begin, 64));
      if (next == nullptr) break;
      node = next;
      begin += 64;
    }
    ASSERT_EQ(begin, longest) << "session " << round;
    tree.Lock(node);
    for (; begin + 64 <= tokens.size(); begin += 64) {
      std::vector<int32_t> page;
      ASSERT_TRUE(pool.Take(1, page));
      node = tree.Insert(node, std::span(tokens).subspan(begin, 64), page[0], true);
    }
    tree.Unlock(node);
    ASSERT_EQ(pool.num_used(), tree.num_pages());
    ASSERT_EQ(tree.num_evictable(), tree.num_pages());
    sessions.push_back(std::move(tokens));
  }
  tree.Clear();
  EXPECT_EQ(pool.num_used(), 0);
}

}  // namespace
}  // namespace quern::cache
