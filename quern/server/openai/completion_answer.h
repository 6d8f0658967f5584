// Token events to a text completion or its chunks.
#pragma once

#include <memory>

#include "quern/server/answer.h"

namespace quern::server {

struct CompletionAnswerOptions {
  AnswerHead head;
  int num_choices = 1;         // prompts x n
  int choices_per_prompt = 1;  // n
  bool stream = false;
  bool include_usage = false;
  int num_top_logprobs = -1;            // -1 = none, as in engine::Request
  std::vector<int32_t> stop_token_ids;  // left out of logprobs; empty when they do not stop
};

// `tokenizer` must outlive it.
std::unique_ptr<AnswerWriter> MakeCompletionAnswer(CompletionAnswerOptions options,
                                                   const text::Tokenizer& tokenizer);

}  // namespace quern::server
