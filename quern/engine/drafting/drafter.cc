#include "quern/engine/drafting/drafter.h"

#include <algorithm>

#include "quern/backend/ops/attention.h"
#include "quern/base/log.h"

namespace quern::engine {
namespace {

using backend::kPageTokens;

// One row of page tables for `sequence` at the end of the batch's; all rows have max_pages.
void AddPageTable(const Sequence& sequence, model::StepBatch& batch) {
  batch.page_tables.insert(batch.page_tables.end(), sequence.pages.begin(), sequence.pages.end());
  batch.page_tables.resize(batch.page_tables.size() + static_cast<size_t>(batch.max_pages) -
                           sequence.pages.size());
}

int64_t MaxPages(const StepPlan& plan) {
  size_t pages = 1;
  for (const StepPart& part : plan.parts) pages = std::max(pages, part.sequence->pages.size());
  return static_cast<int64_t>(pages);
}

}  // namespace

model::StepBatch MakeStepBatch(const StepPlan& plan) {
  model::StepBatch batch;
  batch.max_pages = MaxPages(plan);
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    const StepPart& part = plan.parts[i];
    const Sequence& s = *part.sequence;
    const auto& tokens = s.tokens();
    batch.tokens.insert(batch.tokens.end(), tokens.begin() + part.begin, tokens.begin() + part.end);
    batch.tokens.insert(batch.tokens.end(), s.drafts.begin(), s.drafts.begin() + part.num_drafts);
    for (int64_t row = 0; row < part.num_rows(); ++row) {
      batch.positions.push_back(static_cast<int32_t>(part.begin + row));
    }
    batch.sequences.resize(batch.tokens.size(), static_cast<int32_t>(i));
    AddPageTable(s, batch);
    if (!part.draws) continue;
    const int32_t rows = static_cast<int32_t>(batch.tokens.size());
    for (int64_t row = rows - 1 - part.num_drafts; row < rows; ++row) {
      batch.logit_rows.push_back(static_cast<int32_t>(row));
    }
  }
  return batch;
}

void Drafter::Run(const StepPlan& plan, int64_t num_decoding) {
  for (const StepPart& part : plan.parts) part.sequence->drafts.clear();
  const Status status = Draft(plan, num_decoding);
  if (status.ok()) return;
  log::warn("drafting failed, going on without drafts: {}", status.message());
  for (const StepPart& part : plan.parts) {
    part.sequence->drafts.clear();
    part.sequence->drafting = false;
  }
}

// Rows of the sequence whose draft keys are due: tokens that the model has computed, and the one
// after them, which is known.
void Drafter::AddRows(const StepPart& part, int64_t first_row, model::DraftBatch& batch) {
  Sequence& s = *part.sequence;
  const int64_t end = std::min(s.num_computed + 1, s.len());
  for (int64_t p = s.num_draft_keys; p < end; ++p) {
    batch.rows.tokens.push_back(s.tokens()[static_cast<size_t>(p)]);
    batch.rows.positions.push_back(static_cast<int32_t>(p));
    batch.rows.sequences.push_back(static_cast<int32_t>(
        static_cast<int64_t>(batch.rows.page_tables.size()) / batch.rows.max_pages));
    if (p == 0) {
      batch.hidden.push_back(model::DraftBatch::kNoHidden);
    } else if (p > part.begin) {
      batch.hidden.push_back(static_cast<int32_t>(first_row + p - 1 - part.begin));
    } else {
      // The step began behind a page from the prefix tree.
      batch.hidden.push_back(
          model::DraftBatch::FromTail(s.pages[static_cast<size_t>((p - 1) / kPageTokens)]));
    }
  }
  AddPageTable(s, batch.rows);
  s.num_draft_keys = end;
}

Status Drafter::Draft(const StepPlan& plan, int64_t num_decoding) {
  struct Chain {
    Sequence* sequence;
    int32_t depth;
  };
  model::DraftBatch batch;
  batch.rows.max_pages = MaxPages(plan);
  std::vector<Chain> chains;
  int64_t first_row = 0;
  for (const StepPart& part : plan.parts) {
    Sequence& s = *part.sequence;
    const bool page_done = (s.num_shared + 1) * kPageTokens <= s.num_computed;
    // Of a finished sequence, only keys that complete a page are of use to others.
    if (s.drafting && (!s.finished() || page_done)) {
      const bool decodes = !s.finished() && s.num_computed + 1 == s.len();
      int32_t depth = decodes ? controller_.Depth(s.draft_record, num_decoding) : 0;
      if (depth < 0) {
        s.drafting = false;
      } else {
        AddRows(part, first_row, batch);
        depth = static_cast<int32_t>(std::min<int64_t>(depth, s.max_len() - s.len() - 1));
        if (depth > 0) {
          batch.rows.logit_rows.push_back(static_cast<int32_t>(batch.rows.tokens.size() - 1));
          chains.push_back({&s, depth});
        }
      }
    }
    first_row += part.num_rows();
  }
  if (batch.rows.tokens.empty()) return OkStatus();
  const Clock::time_point start = Clock::now();
  QUERN_TRY(model_.Draft(batch, kv_, logits_));
  const size_t vocab = static_cast<size_t>(model_.config().vocab_size);
  int32_t passes = 1;
  std::vector<int32_t> rows, tokens;
  while (true) {
    rows.clear(), tokens.clear();
    std::vector<Chain> going_on;
    for (size_t i = 0; i < chains.size(); ++i) {
      Sequence& s = *chains[i].sequence;
      const int32_t token = s.Draft(std::span(logits_).subspan(i * vocab, vocab),
                                    s.len() + static_cast<int64_t>(s.drafts.size()));
      if (token < 0) continue;
      s.drafts.push_back(token);
      if (static_cast<int32_t>(s.drafts.size()) == chains[i].depth) continue;
      rows.push_back(static_cast<int32_t>(i));
      tokens.push_back(token);
      going_on.push_back(chains[i]);
    }
    if (rows.empty()) break;
    QUERN_TRY(model_.DraftNext(rows, tokens, kv_, logits_));
    chains = std::move(going_on);
    ++passes;
  }
  const bool only_decoding = plan.prefill_rows == 0;
  if (only_decoding) {
    controller_.ObserveDrafting(passes,
                                std::chrono::duration<double>(Clock::now() - start).count());
  }
  return OkStatus();
}

}  // namespace quern::engine
