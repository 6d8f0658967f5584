// Token events to the JSON of chat and text completions, streamed and whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/server/logprobs.h"
#include "quern/server/openai/chat_answer.h"
#include "quern/server/openai/completion_answer.h"
#include "quern/server/testing/test_model.h"

namespace quern::server {
namespace {

using engine::FinishReason;
using engine::TokenEvent;
using ::testing::ElementsAre;

const text::Tokenizer& Tokens() { return *SharedTestModel().tokenizer; }

TokenEvent Token(std::string text, int32_t token = 65) {
  TokenEvent event;
  event.has_token = true;
  event.token = token;
  event.text = std::move(text);
  event.logprob = {token, -0.5f};
  return event;
}

TokenEvent Last(FinishReason finish, int prompt, int completion, int cached = 0,
                std::string text = "") {
  TokenEvent event;
  event.finish = finish;
  event.text = std::move(text);
  event.num_prompt_tokens = prompt;
  event.num_completion_tokens = completion;
  event.num_cached_tokens = cached;
  return event;
}

ChatAnswerOptions ChatOptions(bool stream) {
  ChatAnswerOptions options;
  options.head = {"chatcmpl-1", 1700, "m", "quern-1"};
  options.stream = stream;
  options.parser.parse_tool_calls = true;
  return options;
}

CompletionAnswerOptions CompletionOptions(bool stream) {
  CompletionAnswerOptions options;
  options.head = {"cmpl-1", 1700, "m", "quern-1"};
  options.stream = stream;
  return options;
}

// The JSON of every SSE event before [DONE], which must be last.
std::vector<Json> Chunks(const std::string& sse) {
  std::vector<Json> chunks;
  size_t at = 0;
  while (at < sse.size()) {
    const size_t end = sse.find("\n\n", at);
    EXPECT_NE(end, std::string::npos);
    const std::string event = sse.substr(at, end - at);
    EXPECT_EQ(event.rfind("data: ", 0), 0u) << event;
    at = end + 2;
    if (event == "data: [DONE]") {
      EXPECT_EQ(at, sse.size());
      return chunks;
    }
    const Result<Json> json = ParseJson(event.substr(6));
    EXPECT_TRUE(json.ok()) << event;
    if (json.ok()) chunks.push_back(*json);
  }
  ADD_FAILURE() << "no [DONE] in " << sse;
  return chunks;
}

std::string RunAll(AnswerWriter& writer, const std::vector<std::pair<int, TokenEvent>>& events) {
  std::string out;
  for (const auto& [choice, event] : events) {
    writer.Add(choice, event);
    out += writer.Take();
  }
  return out + writer.Finish();
}

TEST(ChatAnswer, WholeAnswerHasOpenAisShape) {
  auto writer = MakeChatAnswer(ChatOptions(false), Tokens());
  const std::string body = RunAll(
      *writer, {{0, Token("Hel")}, {0, Token("lo")}, {0, Last(FinishReason::kStop, 5, 3, 2)}});
  EXPECT_EQ(
      body,
      R"({"id":"chatcmpl-1","object":"chat.completion","created":1700,"model":"m","system_fingerprint":"quern-1",)"
      R"("choices":[{"index":0,"message":{"role":"assistant","content":"Hello","refusal":null},"logprobs":null,)"
      R"("finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8,)"
      R"("prompt_tokens_details":{"cached_tokens":2}}})");
}

TEST(ChatAnswer, StreamsChunksThatBeginWithTheRoleAndEndWithUsage) {
  ChatAnswerOptions options = ChatOptions(true);
  options.include_usage = true;
  auto writer = MakeChatAnswer(std::move(options), Tokens());
  const std::vector<Json> chunks =
      Chunks(RunAll(*writer, {{0, Token("Hel")},
                              {0, Token("")},
                              {0, Token("lo")},
                              {0, Last(FinishReason::kLength, 5, 3, 0, "!")}}));
  ASSERT_EQ(chunks.size(), 6u);
  EXPECT_EQ(
      DumpJson(chunks[0]),
      R"({"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700,"model":"m",)"
      R"("system_fingerprint":"quern-1","choices":[{"index":0,"delta":{"role":"assistant","content":""},)"
      R"("logprobs":null,"finish_reason":null}],"usage":null})");
  EXPECT_EQ(chunks[1]["choices"][0]["delta"]["content"], "Hel");
  EXPECT_EQ(chunks[2]["choices"][0]["delta"]["content"], "lo");
  EXPECT_EQ(chunks[3]["choices"][0]["delta"]["content"], "!");
  EXPECT_EQ(DumpJson(chunks[4]["choices"]),
            R"([{"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}])");
  EXPECT_EQ(DumpJson(chunks[5]["choices"]), "[]");
  EXPECT_EQ(chunks[5]["usage"]["total_tokens"], 8);
}

const char kToolOutput[] =
    "I need it.</think>Let me "
    "look.<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value></tool_call>";

TEST(ChatAnswer, ReasoningAndToolCallsAreTheSameStreamedAndWhole) {
  for (const size_t piece : {1u, 3u, 7u, 1000u}) {
    SCOPED_TRACE(piece);
    std::vector<std::pair<int, TokenEvent>> events;
    const std::string text = kToolOutput;
    for (size_t at = 0; at < text.size(); at += piece)
      events.emplace_back(0, Token(text.substr(at, piece)));
    events.emplace_back(0, Last(FinishReason::kStop, 1, 1));

    ChatAnswerOptions options = ChatOptions(false);
    options.parser.starts_in_reasoning = true;
    const Json whole = *ParseJson(RunAll(*MakeChatAnswer(options, Tokens()), events));
    const Json& message = whole["choices"][0]["message"];
    EXPECT_EQ(message["reasoning_content"], "I need it.");
    EXPECT_EQ(message["content"], "Let me look.");
    ASSERT_EQ(message["tool_calls"].size(), 1u);
    EXPECT_EQ(message["tool_calls"][0]["type"], "function");
    EXPECT_EQ(message["tool_calls"][0]["function"]["name"], "get_weather");
    EXPECT_EQ(*ParseJson(message["tool_calls"][0]["function"]["arguments"].get<std::string>()),
              *ParseJson(R"({"city": "Paris"})"));
    EXPECT_EQ(whole["choices"][0]["finish_reason"], "tool_calls");

    options.stream = true;
    std::string reasoning, content, arguments, name, id;
    Json finish;
    for (const Json& chunk : Chunks(RunAll(*MakeChatAnswer(options, Tokens()), events))) {
      const Json& delta = chunk["choices"][0]["delta"];
      reasoning += delta.value("reasoning_content", "");
      content += delta.value("content", "");
      finish = chunk["choices"][0]["finish_reason"];
      if (!delta.contains("tool_calls")) continue;
      const Json& call = delta["tool_calls"][0];
      EXPECT_EQ(call["index"], 0);
      if (call.contains("id")) id += call["id"].get<std::string>();
      name += call["function"].value("name", "");
      arguments += call["function"].value("arguments", "");
    }
    EXPECT_EQ(reasoning, message["reasoning_content"]);
    EXPECT_EQ(content, message["content"]);
    EXPECT_EQ(name, "get_weather");
    EXPECT_EQ(arguments, message["tool_calls"][0]["function"]["arguments"]);
    EXPECT_EQ(id.rfind("call_", 0), 0u);
    EXPECT_EQ(finish, "tool_calls");
  }
}

TEST(ChatAnswer, ContentIsNullBesideNothingButCalls) {
  auto writer = MakeChatAnswer(ChatOptions(false), Tokens());
  const Json body = *ParseJson(RunAll(
      *writer, {{0, Token("<tool_call>now</tool_call>")}, {0, Last(FinishReason::kStop, 1, 1)}}));
  EXPECT_TRUE(body["choices"][0]["message"]["content"].is_null());
  EXPECT_EQ(body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"], "{}");
}

TEST(ChatAnswer, CompletesACallTheContinuedMessageBegan) {
  ChatAnswerOptions options = ChatOptions(false);
  options.open_tool_call = "<tool_call>f<arg_key>a</arg_key><arg_value>Par";
  auto writer = MakeChatAnswer(std::move(options), Tokens());
  const Json body = *ParseJson(RunAll(
      *writer, {{0, Token("is</arg_value></tool_call>")}, {0, Last(FinishReason::kStop, 1, 1)}}));
  const Json& function = body["choices"][0]["message"]["tool_calls"][0]["function"];
  EXPECT_EQ(function["name"], "f");
  EXPECT_EQ(*ParseJson(function["arguments"].get<std::string>()), *ParseJson(R"({"a": "Paris"})"));
}

TEST(ChatAnswer, ACallCutByTheTokenLimitEndsForLength) {
  auto writer = MakeChatAnswer(ChatOptions(false), Tokens());
  const Json body =
      *ParseJson(RunAll(*writer, {{0, Token("<tool_call>f<arg_key>a</arg_key><arg_value>1")},
                                  {0, Last(FinishReason::kLength, 1, 1)}}));
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
}

TEST(ChatAnswer, LogprobsComeWithTheTextOrAfterItAndLeaveOutStopTokens) {
  ChatAnswerOptions options = ChatOptions(true);
  options.logprobs = true;
  options.stop_token_ids = {519};
  TokenEvent first = Token("");  // withheld: its logprob waits
  first.top_logprobs = {{65, -0.5f}, {66, -1.5f}};
  const std::vector<std::pair<int, TokenEvent>> events = {
      {0, first}, {0, Token("ab", 66)}, {0, Token("", 519)}, {0, Last(FinishReason::kStop, 1, 3)}};
  std::vector<std::string> tokens;
  for (const Json& chunk : Chunks(RunAll(*MakeChatAnswer(options, Tokens()), events))) {
    const Json& logprobs = chunk["choices"][0]["logprobs"];
    if (logprobs.is_null()) continue;
    for (const Json& item : logprobs["content"]) {
      tokens.push_back(item["token"]);
      EXPECT_FLOAT_EQ(item["logprob"].get<float>(), -0.5f);
    }
  }
  EXPECT_THAT(tokens, ElementsAre(Tokens().TokenBytes(65), Tokens().TokenBytes(66)));

  options.stream = false;
  const Json body = *ParseJson(RunAll(*MakeChatAnswer(options, Tokens()), events));
  const Json& content = body["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 2u);
  EXPECT_EQ(content[0]["top_logprobs"].size(), 2u);
  EXPECT_EQ(content[0]["top_logprobs"][1]["token"], Tokens().TokenBytes(66));
  EXPECT_EQ(content[0]["bytes"].size(), Tokens().TokenBytes(65).size());
}

TEST(ChatAnswer, ChoicesKeepApartAndThePromptCountsOnce) {
  ChatAnswerOptions options = ChatOptions(false);
  options.num_choices = 2;
  auto writer = MakeChatAnswer(std::move(options), Tokens());
  const Json body = *ParseJson(RunAll(*writer, {{1, Token("b")},
                                                {0, Token("a")},
                                                {1, Last(FinishReason::kLength, 7, 1, 7)},
                                                {0, Token("A")},
                                                {0, Last(FinishReason::kStop, 7, 2, 3)}}));
  EXPECT_EQ(body["choices"][0]["message"]["content"], "aA");
  EXPECT_EQ(body["choices"][1]["message"]["content"], "b");
  EXPECT_EQ(body["choices"][1]["finish_reason"], "length");
  EXPECT_EQ(body["usage"]["prompt_tokens"], 7);
  EXPECT_EQ(body["usage"]["completion_tokens"], 3);
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 3);
  EXPECT_EQ(writer->finish_reason(1), "length");
}

TEST(CompletionAnswer, WholeAnswerHasOpenAisShape) {
  CompletionAnswerOptions options = CompletionOptions(false);
  options.num_choices = 2;
  auto writer = MakeCompletionAnswer(std::move(options), Tokens());
  const std::string body = RunAll(*writer, {{0, Token("a")},
                                            {1, Token("b")},
                                            {1, Last(FinishReason::kLength, 3, 1)},
                                            {0, Last(FinishReason::kStop, 2, 2)}});
  EXPECT_EQ(
      body,
      R"({"id":"cmpl-1","object":"text_completion","created":1700,"model":"m","system_fingerprint":"quern-1",)"
      R"("choices":[{"index":0,"text":"a","logprobs":null,"finish_reason":"stop"},)"
      R"({"index":1,"text":"b","logprobs":null,"finish_reason":"length"}],)"
      R"("usage":{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8,)"
      R"("prompt_tokens_details":{"cached_tokens":0}}})");
}

TEST(CompletionAnswer, StreamsTextAndOneFinish) {
  CompletionAnswerOptions options = CompletionOptions(true);
  options.include_usage = true;
  auto writer = MakeCompletionAnswer(std::move(options), Tokens());
  const std::vector<Json> chunks = Chunks(RunAll(
      *writer, {{0, Token("a")}, {0, Token("")}, {0, Last(FinishReason::kStop, 2, 2, 0, "b")}}));
  ASSERT_EQ(chunks.size(), 3u);
  EXPECT_EQ(DumpJson(chunks[0]["choices"]),
            R"([{"index":0,"text":"a","logprobs":null,"finish_reason":null}])");
  EXPECT_EQ(DumpJson(chunks[1]["choices"]),
            R"([{"index":0,"text":"b","logprobs":null,"finish_reason":"stop"}])");
  EXPECT_EQ(chunks[2]["usage"]["prompt_tokens"], 2);
}

TEST(CompletionAnswer, LogprobsAreParallelListsWithOffsetsInCharacters) {
  // Token ids of "a" and of the two bytes of "é", which the small vocabulary may hold apart.
  const std::vector<int32_t> ids = *Tokens().Encode("a\xc3\xa9z");
  for (const bool stream : {false, true}) {
    CompletionAnswerOptions options = CompletionOptions(stream);
    options.num_top_logprobs = 1;
    auto writer = MakeCompletionAnswer(std::move(options), Tokens());
    std::vector<std::pair<int, TokenEvent>> events;
    for (const int32_t id : ids) {
      events.emplace_back(0, Token(Tokens().TokenBytes(id), id));
      events.back().second.top_logprobs = {{id, -0.5f}};
    }
    events.emplace_back(0, Last(FinishReason::kStop, 1, 1));
    const std::string out = RunAll(*writer, events);
    std::vector<int64_t> offsets;
    size_t num_tokens = 0, num_top = 0;
    const std::vector<Json> parts = stream ? Chunks(out) : std::vector<Json>{*ParseJson(out)};
    for (const Json& part : parts) {
      const Json& logprobs = part["choices"][0]["logprobs"];
      if (logprobs.is_null()) continue;
      for (const Json& offset : logprobs["text_offset"]) offsets.push_back(offset.get<int64_t>());
      num_tokens += logprobs["tokens"].size();
      num_top += logprobs["top_logprobs"].size();
      EXPECT_EQ(logprobs["tokens"].size(), logprobs["token_logprobs"].size());
    }
    EXPECT_EQ(num_tokens, ids.size());
    EXPECT_EQ(num_top, ids.size());
    ASSERT_EQ(offsets.size(), ids.size());
    EXPECT_EQ(offsets.front(), 0);
    EXPECT_EQ(offsets.back(), 2) << "z is the third character";
  }
}

TEST(CompletionLogprobs, KeepsTokensThatAreNoCharactersApart) {
  // Two byte tokens that would both show as U+FFFD.
  int32_t high = -1, other = -1;
  for (int32_t id = 0; id < Tokens().vocab_size(); ++id) {
    if (Tokens().TokenBytes(id) == "\xe4") high = id;
    if (Tokens().TokenBytes(id) == "\xe5") other = id;
  }
  ASSERT_GE(high, 0);
  ASSERT_GE(other, 0);
  TokenEvent event = Token("", high);
  event.logprob.logprob = -std::numeric_limits<float>::infinity();
  event.top_logprobs = {{high, -1}, {other, -2}};
  CompletionLogprobs logprobs(/*with_top=*/true);
  logprobs.Add(Tokens(), event);
  EXPECT_EQ(DumpJson(logprobs.Take()),
            R"({"tokens":["bytes:\\xe4"],"token_logprobs":[-9999.0],)"
            R"("top_logprobs":[{"bytes:\\xe4":-1.0,"bytes:\\xe5":-2.0}],"text_offset":[0]})");
  EXPECT_EQ(ChatLogprob(Tokens(), event)["bytes"], Json::array({0xe4}));
}

}  // namespace
}  // namespace quern::server
