#include "quern/engine/scheduling/scheduler.h"

#include <algorithm>

#include "quern/backend/ops/attention.h"
#include "quern/base/check.h"

namespace quern::engine {
namespace {

using backend::kPageTokens;

int64_t PagesFor(int64_t len) { return (len + kPageTokens - 1) / kPageTokens; }

// Waiting sequences looked at per step beyond those that are taken.
constexpr int kMaxSkipped = 64;

}  // namespace

size_t Scheduler::Insert(Line& line, std::shared_ptr<Sequence> sequence) {
  const auto at =
      std::upper_bound(line.begin(), line.end(), sequence,
                       [](const auto& a, const auto& b) { return a->order < b->order; });
  return static_cast<size_t>(line.insert(at, std::move(sequence)) - line.begin());
}

void Scheduler::Add(std::shared_ptr<Sequence> sequence) { Insert(waiting_, std::move(sequence)); }

bool Scheduler::AnyDecoding() const {
  return std::any_of(running_.begin(), running_.end(),
                     [](const auto& s) { return s->num_computed + 1 == s->len(); });
}

StepPlan Scheduler::Plan(int64_t prefill_rows) {
  StepPlan plan;
  // One pass in the order of the line, so that whoever loses its pages was not planned yet.
  for (size_t i = 0; i < running_.size(); ++i) {
    const std::shared_ptr<Sequence> s = running_[i];
    const bool decodes = s->num_computed + 1 == s->len();
    if (!decodes && prefill_rows <= 0) continue;
    if (decodes) TrimDrafts(*s);
    const int64_t drafts = decodes ? static_cast<int64_t>(s->drafts.size()) : 0;
    const int64_t end = decodes ? s->len() : std::min(s->num_computed + prefill_rows, s->len());
    // The token after these rows needs no page yet, but its draft key does.
    if (!EnsurePages(*s, std::min(end + drafts + 1, s->max_len()), i)) continue;
    AddPart(plan, s, end, drafts);
    if (!decodes) prefill_rows -= plan.parts.back().num_rows();
  }
  AdmitWaiting(plan, prefill_rows);
  return plan;
}

void Scheduler::AddPart(StepPlan& plan, const std::shared_ptr<Sequence>& s, int64_t end,
                        int64_t drafts) {
  plan.parts.push_back({s, s->num_computed, end, drafts, end == s->len()});
  const int64_t rows = plan.parts.back().num_rows();
  (s->num_computed + 1 == s->len() ? plan.decode_rows : plan.prefill_rows) += rows;
}

// Guesses beyond the longest outcome are useless, and none are worth another's pages.
void Scheduler::TrimDrafts(Sequence& s) const {
  const int64_t room = s.max_len() - s.len();
  if (static_cast<int64_t>(s.drafts.size()) > room) s.drafts.resize(static_cast<size_t>(room));
  const int64_t wanted = PagesFor(s.len() + static_cast<int64_t>(s.drafts.size()) + 1) -
                         static_cast<int64_t>(s.pages.size());
  if (wanted > FreePages()) s.drafts.clear();
}

// Free now, or free for the asking.
int64_t Scheduler::FreePages() const {
  return pool_.num_pages() - pool_.num_used() + tree_.num_evictable();
}

// Gives the sequence running_[index] pages for `len` tokens. When there are too few, those last in
// line give theirs up, in the end the sequence itself: false then, and running_[index + 1] is the
// next in line.
bool Scheduler::EnsurePages(Sequence& sequence, int64_t len, size_t& index) {
  const int64_t missing = PagesFor(len) - static_cast<int64_t>(sequence.pages.size());
  if (missing <= 0) return true;
  while (!tree_.MakeRoom(missing)) {
    const bool self = running_.size() == index + 1;
    Preempt(running_.size() - 1);
    if (self) {
      --index;
      return false;
    }
  }
  QUERN_CHECK(pool_.Take(missing, sequence.pages));
  return true;
}

void Scheduler::Preempt(size_t running_index) {
  std::shared_ptr<Sequence> victim = running_[running_index];
  running_.erase(running_.begin() + static_cast<ptrdiff_t>(running_index));
  ReleasePages(*victim);
  ++num_preemptions_;
  Insert(waiting_, std::move(victim));
}

void Scheduler::ReleasePages(Sequence& sequence) {
  std::vector<int32_t> own(sequence.pages.begin() + sequence.num_shared, sequence.pages.end());
  pool_.Give(own);
  sequence.pages.clear();
  sequence.num_shared = 0;
  if (sequence.node != nullptr) tree_.Unlock(sequence.node);
  sequence.node = nullptr;
  sequence.num_computed = 0;
  sequence.num_draft_keys = 0;
  sequence.drafts.clear();
}

// Pages that running sequences still need for the tokens they have.
int64_t Scheduler::PromisedPages() const {
  int64_t pages = 0;
  for (const auto& s : running_) {
    pages += std::max<int64_t>(
        PagesFor(std::min(s->len() + 1, s->max_len())) - static_cast<int64_t>(s->pages.size()), 0);
  }
  return pages;
}

// A sequence that runs is about to compute a page that `sequence` could share: better wait for it
// than compute it twice.
bool Scheduler::WillBeShared(const Sequence& sequence, int64_t num_shared) const {
  const int64_t want = (num_shared + 1) * kPageTokens;
  if (want > sequence.len() - 1) return false;
  return std::any_of(running_.begin(), running_.end(), [&](const auto& r) {
    return r->num_computed < want && r->num_computed + 1 < r->len() && r->len() >= want &&
           std::equal(r->tokens().begin(), r->tokens().begin() + want, sequence.tokens().begin());
  });
}

// Finds the cached beginning of the sequence and sees whether the rest would fit.
Scheduler::Admission Scheduler::Admit(Sequence& s) {
  const std::span<const int32_t> tokens = s.tokens();
  // The last token is always computed: its logits are wanted.
  const int64_t max_shared = options_.share_prefixes ? (s.len() - 1) / kPageTokens : 0;
  std::vector<int32_t> pages;
  const auto page_tokens = [&] { return tokens.subspan(pages.size() * kPageTokens, kPageTokens); };
  cache::PrefixTree::Node* node = tree_.root();
  while (static_cast<int64_t>(pages.size()) < max_shared) {
    cache::PrefixTree::Node* next = tree_.Find(node, page_tokens());
    if (next == nullptr) break;
    node = next;
    pages.push_back(node->page());
  }
  tree_.Lock(node);
  while (restore_ && static_cast<int64_t>(pages.size()) < max_shared) {
    cache::PrefixTree::Node* next = restore_(node, page_tokens());
    if (next == nullptr) break;
    node = next;
    pages.push_back(node->page());
  }
  const int64_t num_shared = static_cast<int64_t>(pages.size());
  if (options_.share_prefixes && WillBeShared(s, num_shared)) {
    tree_.Unlock(node);
    return Admission::kWaitsForAnother;
  }
  const int64_t needed = PagesFor(std::min(s.len() + 1, s.max_len())) - num_shared;
  // Each that runs may soon want a page; taking the last ones would throw out whom we just let in.
  const int64_t spare = static_cast<int64_t>(running_.size());
  if (!running_.empty() && FreePages() < needed + PromisedPages() + spare) {
    tree_.Unlock(node);
    return Admission::kWaitsForPages;
  }
  s.node = node;
  s.pages = std::move(pages);
  s.num_shared = num_shared;
  s.num_computed = num_shared * kPageTokens;
  s.num_draft_keys = s.num_computed;
  s.drafting = s.drafting && node->has_draft_keys();
  if (s.num_cached < 0) {
    s.num_cached = s.num_computed;
    prefix_queries_ += s.prompt_len();
    prefix_hits_ += s.num_cached;
    s.queue_seconds = std::chrono::duration<double>(Clock::now() - s.submitted).count();
  }
  return Admission::kRuns;
}

void Scheduler::AdmitWaiting(StepPlan& plan, int64_t prefill_rows) {
  int skipped = 0;
  for (size_t i = 0; i < waiting_.size();) {
    if (prefill_rows <= 0 || static_cast<int32_t>(running_.size()) >= options_.max_running) return;
    const std::shared_ptr<Sequence> s = waiting_[i];
    const Admission admission = Admit(*s);
    if (admission == Admission::kWaitsForPages) return;  // the line stops here
    if (admission == Admission::kWaitsForAnother) {
      if (++skipped == kMaxSkipped) return;
      ++i;
      continue;
    }
    waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(i));
    size_t index = Insert(running_, s);
    const int64_t end = std::min(s->num_computed + prefill_rows, s->len());
    const int64_t missing = PagesFor(std::min(end + 1, s->max_len())) - s->num_shared;
    // Admit counted free pages; only a sequence that is alone may still have to throw some out.
    if (missing > FreePages() || !EnsurePages(*s, std::min(end + 1, s->max_len()), index)) return;
    AddPart(plan, s, end, 0);
    prefill_rows -= plan.parts.back().num_rows();
  }
}

void Scheduler::ShareFullPages(Sequence& s) {
  if (!options_.share_prefixes || s.node == nullptr) return;
  const std::span<const int32_t> tokens = s.tokens();
  while ((s.num_shared + 1) * kPageTokens <= s.num_computed) {
    const int64_t end = (s.num_shared + 1) * kPageTokens;
    int32_t& page = s.pages[static_cast<size_t>(s.num_shared)];
    s.node =
        tree_.Insert(s.node, tokens.subspan(static_cast<size_t>(end - kPageTokens), kPageTokens),
                     page, s.drafting && s.num_draft_keys >= end);
    page = s.node->page();
    ++s.num_shared;
  }
}

void Scheduler::Remove(const std::shared_ptr<Sequence>& sequence) {
  for (Line* line : {&running_, &waiting_}) {
    const auto it = std::find(line->begin(), line->end(), sequence);
    if (it != line->end()) line->erase(it);
  }
  ReleasePages(*sequence);
}

}  // namespace quern::engine
