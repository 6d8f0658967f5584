#include "quern/server/logprobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace quern::server {
namespace {

float ForJson(float logprob) {
  return std::isnan(logprob) ? kLowestLogprob : std::max(logprob, kLowestLogprob);
}

bool IsUtf8(std::string_view bytes) {
  // The JSON writer is the judge: it is who would replace the bytes.
  const Json json = std::string(bytes);
  try {
    (void)json.dump();
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

Json ChatToken(const text::Tokenizer& tokenizer, const engine::TokenLogprob& item) {
  const std::string& bytes = tokenizer.TokenBytes(item.token);
  Json list = Json::array();
  for (const char c : bytes) list.push_back(static_cast<int>(static_cast<unsigned char>(c)));
  return {{"token", bytes}, {"logprob", ForJson(item.logprob)}, {"bytes", std::move(list)}};
}

std::string CompletionToken(const text::Tokenizer& tokenizer, int32_t token) {
  const std::string& bytes = tokenizer.TokenBytes(token);
  if (IsUtf8(bytes)) return bytes;
  std::string text = "bytes:";
  for (const char c : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return text;
}

}  // namespace

Json ChatLogprob(const text::Tokenizer& tokenizer, const engine::TokenEvent& event) {
  Json json = ChatToken(tokenizer, event.logprob);
  json["top_logprobs"] = Json::array();
  for (const engine::TokenLogprob& item : event.top_logprobs) {
    json["top_logprobs"].push_back(ChatToken(tokenizer, item));
  }
  return json;
}

void CompletionLogprobs::Add(const text::Tokenizer& tokenizer, const engine::TokenEvent& event) {
  tokens_.push_back(CompletionToken(tokenizer, event.logprob.token));
  logprobs_.push_back(ForJson(event.logprob.logprob));
  offsets_.push_back(offset_);
  offset_ += CountCharacters(tokenizer.TokenBytes(event.logprob.token));
  Json top = Json::object();
  for (const engine::TokenLogprob& item : event.top_logprobs) {
    top[CompletionToken(tokenizer, item.token)] = ForJson(item.logprob);
  }
  top_.push_back(std::move(top));
}

Json CompletionLogprobs::Take() {
  Json json = {{"tokens", std::move(tokens_)},
               {"token_logprobs", std::move(logprobs_)},
               {"top_logprobs", with_top_ ? std::move(top_) : Json(nullptr)},
               {"text_offset", std::move(offsets_)}};
  tokens_ = logprobs_ = top_ = offsets_ = Json::array();
  return json;
}

int64_t CountCharacters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

}  // namespace quern::server
