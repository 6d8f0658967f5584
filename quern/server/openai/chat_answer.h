// Token events to a chat completion or its chunks.
#pragma once

#include <memory>

#include "quern/server/answer.h"
#include "quern/text/output_parser.h"

namespace quern::server {

struct ChatAnswerOptions {
  AnswerHead head;
  int num_choices = 1;
  bool stream = false;
  bool include_usage = false;
  bool logprobs = false;
  text::OutputParserOptions parser;
  std::string open_tool_call;           // see RenderedPrompt
  std::vector<int32_t> stop_token_ids;  // left out of logprobs; empty when they do not stop
};

// `tokenizer` must outlive it.
std::unique_ptr<AnswerWriter> MakeChatAnswer(ChatAnswerOptions options,
                                             const text::Tokenizer& tokenizer);

}  // namespace quern::server
