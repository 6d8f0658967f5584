#include "quern/text/detokenizer.h"

#include "quern/text/utf8.h"

namespace quern::text {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens)
    : tokenizer_(tokenizer), skip_special_tokens_(skip_special_tokens) {}

std::string Detokenizer::Push(int32_t token) {
  std::string text;
  if (skip_special_tokens_ && tokenizer_.IsSpecial(token)) return text;
  pending_ += tokenizer_.TokenBytes(token);
  TakeUtf8(pending_, text);
  return text;
}

std::string Detokenizer::Flush() {
  if (pending_.empty()) return {};
  pending_.clear();
  return std::string(kReplacementCharacter);
}

}  // namespace quern::text
