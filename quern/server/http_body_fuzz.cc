// Any bytes as the body of each POST endpoint: an answer or an error, never a crash, and every
// error is a 400 that can be written as JSON. What is accepted keeps the bounds its struct
// promises.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "quern/base/check.h"
#include "quern/server/openai/chat_request.h"
#include "quern/server/openai/completion_request.h"
#include "quern/server/tokenize_request.h"

namespace quern::server {
namespace {

void CheckError(const ApiError& error) {
  QUERN_CHECK(error.http_status == 400, "status {}", error.http_status);
  QUERN_CHECK(!error.message.empty());
  QUERN_CHECK(ParseJson(DumpJson(ErrorBody(error))).ok(), "{}", error.message);
}

void CheckSampling(const SamplingFields& fields) {
  const engine::SamplingParams& s = fields.sampling;
  QUERN_CHECK(s.temperature >= 0 && s.temperature <= 2, "{}", s.temperature);
  QUERN_CHECK(s.top_p > 0 && s.top_p <= 1, "{}", s.top_p);
  QUERN_CHECK(s.min_p >= 0 && s.min_p <= 1, "{}", s.min_p);
  QUERN_CHECK(s.repetition_penalty > 0, "{}", s.repetition_penalty);
  QUERN_CHECK(s.top_k >= 0, "{}", s.top_k);
  QUERN_CHECK(fields.num_choices >= 1 && fields.num_choices <= kMaxChoices, "{}",
              fields.num_choices);
  QUERN_CHECK(fields.max_tokens.value_or(1) >= 1, "{}", fields.max_tokens.value_or(1));
  for (const std::string& stop : fields.stop)
    QUERN_CHECK(!stop.empty() && stop.size() <= kMaxStopBytes);
}

void CheckBody(std::string_view body) {
  const auto chat = ParseChatRequest(body, {});
  if (chat.ok()) {
    CheckSampling(chat->fields);
    QUERN_CHECK(!chat->prompt.messages.empty());
    for (const Json& message : chat->prompt.messages) QUERN_CHECK(message.at("role").is_string());
  } else {
    CheckError(chat.error());
  }
  const auto completion = ParseCompletionRequest(body, {});
  if (completion.ok()) {
    CheckSampling(completion->fields);
    QUERN_CHECK(!completion->prompts.empty());
  } else {
    CheckError(completion.error());
  }
  if (const auto tokenize = ParseTokenizeRequest(body); !tokenize.ok())
    CheckError(tokenize.error());
  if (const auto detokenize = ParseDetokenizeRequest(body); !detokenize.ok())
    CheckError(detokenize.error());
}

}  // namespace
}  // namespace quern::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  quern::server::CheckBody({reinterpret_cast<const char*>(data), size});
  return 0;
}
