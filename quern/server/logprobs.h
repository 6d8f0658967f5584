// Log probabilities in the two shapes of the OpenAI API.
#pragma once

#include <string>
#include <string_view>

#include "quern/base/json.h"
#include "quern/engine/request.h"
#include "quern/text/tokenizer.h"

namespace quern::server {

// JSON has no infinity: what is less likely than this is given as this.
inline constexpr float kLowestLogprob = -9999.0f;

// {"token", "logprob", "bytes", "top_logprobs": [...]}: an item of choices[].logprobs.content of a
// chat. Bytes that are no character show as U+FFFD in "token" and as they are in "bytes".
Json ChatLogprob(const text::Tokenizer& tokenizer, const engine::TokenEvent& event);

// The parallel lists of a text completion. Tokens that are no whole characters are written
// "bytes:\xe4\xb8", so that two of them stay two keys of top_logprobs.
class CompletionLogprobs {
 public:
  explicit CompletionLogprobs(bool with_top) : with_top_(with_top) {}
  void Add(const text::Tokenizer& tokenizer, const engine::TokenEvent& event);
  bool empty() const { return tokens_.empty(); }
  // {"tokens", "token_logprobs", "top_logprobs", "text_offset"}; offsets count characters from the
  // answer's begin. Forgets the tokens, keeps the offset: the next call goes on after them.
  Json Take();

 private:
  bool with_top_;
  int64_t offset_ = 0;
  Json tokens_ = Json::array(), logprobs_ = Json::array(), top_ = Json::array(),
       offsets_ = Json::array();
};

// Code points of UTF-8 text; bytes that continue none are not counted.
int64_t CountCharacters(std::string_view text);

}  // namespace quern::server
