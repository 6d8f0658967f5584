// Guesses the next tokens of sequences with the model's MTP layer.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "quern/engine/drafting/draft_controller.h"
#include "quern/engine/scheduling/scheduler.h"
#include "quern/model/model.h"

namespace quern::engine {

// Belongs to the engine's thread.
class Drafter {
 public:
  Drafter(model::Model& model, const model::KvView& kv, DraftController& controller)
      : model_(model), kv_(kv), controller_(controller) {}

  // After a step, when its tokens are settled: brings the MTP layer's keys of the step's sequences
  // up to date and leaves drafts with those that decode. A failure ends drafting for these
  // sequences; their tokens do not depend on it.
  void Run(const StepPlan& plan, int64_t num_decoding);

 private:
  Status Draft(const StepPlan& plan, int64_t num_decoding);
  void AddRows(const StepPart& part, int64_t first_row, model::DraftBatch& batch);

  model::Model& model_;
  const model::KvView& kv_;
  DraftController& controller_;
  std::vector<float> logits_;
};

// Rows and page tables of a step's sequences, in the order of the plan; drafts included.
model::StepBatch MakeStepBatch(const StepPlan& plan);

}  // namespace quern::engine
