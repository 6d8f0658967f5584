// Which rows of which sequences the next step computes, and who holds which pages.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "quern/cache/page_pool.h"
#include "quern/cache/prefix_tree.h"
#include "quern/engine/sequence.h"

namespace quern::engine {

// Rows [begin, end) of a sequence's tokens, then `num_drafts` of its drafts.
struct StepPart {
  std::shared_ptr<Sequence> sequence;
  int64_t begin = 0, end = 0, num_drafts = 0;
  bool draws = false;  // its last token is among them, so the next one can be drawn
  int64_t num_rows() const { return end - begin + num_drafts; }
};

struct StepPlan {
  std::vector<StepPart> parts;
  int64_t decode_rows = 0, prefill_rows = 0;
};

struct SchedulerOptions {
  int32_t prefill_chunk = 512;  // most prompt rows per step
  int32_t max_running = 256;
  bool share_prefixes = true;
};

// Sequences wait in line, run while there are pages, and fall back into the line when there are
// not. Everything here follows the order of the line: an earlier sequence never waits for a later
// one. Belongs to the engine's thread.
class Scheduler {
 public:
  Scheduler(const SchedulerOptions& options, cache::PagePool& pool, cache::PrefixTree& tree)
      : options_(options), pool_(pool), tree_(tree) {}

  // Asked for the page that holds `tokens` below a locked node when the tree has none: puts it into
  // the tree (Insert) if it is kept elsewhere, else returns nullptr.
  using Restore =
      std::function<cache::PrefixTree::Node*(cache::PrefixTree::Node*, std::span<const int32_t>)>;
  void OnMissing(Restore restore) { restore_ = std::move(restore); }

  void Add(std::shared_ptr<Sequence> sequence);
  // Rows for a step: one of each sequence that decodes, with its drafts, then prompt rows, at most
  // `prefill_rows`. Empty only when nothing waits or runs.
  StepPlan Plan(int64_t prefill_rows);
  // Some sequence that runs only waits for its next token.
  bool AnyDecoding() const;

  // After a step: pages that became full (num_computed, num_draft_keys) go to the tree.
  void ShareFullPages(Sequence& sequence);
  // The sequence ended: its pages are free, or stay in the tree.
  void Remove(const std::shared_ptr<Sequence>& sequence);

  const std::vector<std::shared_ptr<Sequence>>& running() const { return running_; }
  const std::vector<std::shared_ptr<Sequence>>& waiting() const { return waiting_; }
  int64_t num_preemptions() const { return num_preemptions_; }
  // Prompt tokens looked up in the tree at a first start, and found.
  int64_t prefix_queries() const { return prefix_queries_; }
  int64_t prefix_hits() const { return prefix_hits_; }

 private:
  using Line = std::vector<std::shared_ptr<Sequence>>;

  enum class Admission { kRuns, kWaitsForPages, kWaitsForAnother };

  static void AddPart(StepPlan& plan, const std::shared_ptr<Sequence>& sequence, int64_t end,
                      int64_t drafts);
  void TrimDrafts(Sequence& sequence) const;
  int64_t FreePages() const;
  bool EnsurePages(Sequence& sequence, int64_t len, size_t& running_index);
  void AdmitWaiting(StepPlan& plan, int64_t prefill_rows);
  Admission Admit(Sequence& sequence);
  bool WillBeShared(const Sequence& sequence, int64_t num_shared) const;
  void Preempt(size_t running_index);
  void ReleasePages(Sequence& sequence);
  int64_t PromisedPages() const;
  static size_t Insert(Line& line, std::shared_ptr<Sequence> sequence);

  SchedulerOptions options_;
  cache::PagePool& pool_;
  cache::PrefixTree& tree_;
  Restore restore_;
  Line waiting_, running_;  // both in order
  int64_t num_preemptions_ = 0, prefix_queries_ = 0, prefix_hits_ = 0;
};

}  // namespace quern::engine
