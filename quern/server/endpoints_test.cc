// Endpoints without sockets: JSON in, JSON or engine requests out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/server/dispatcher.h"
#include "quern/server/openai/chat_completions.h"
#include "quern/server/openai/completions.h"
#include "quern/server/openai/models.h"
#include "quern/server/render.h"
#include "quern/server/routes.h"
#include "quern/server/status_endpoints.h"
#include "quern/server/testing/test_model.h"
#include "quern/server/tokenize.h"

namespace quern::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Endpoints : public ::testing::Test {
 protected:
  static ServerOptions Options() {
    ServerOptions options;
    options.served_model_names = {"org/test-model", "alias"};
    return options;
  }

  std::string DecodePrompt(const engine::Request& request) {
    return *model_.tokenizer->Decode(request.prompt, /*skip_special_tokens=*/false);
  }
  PreparedAnswer Chat(const std::string& body) {
    ApiResult<PreparedAnswer> answer = PrepareChatCompletion(services_, body);
    EXPECT_TRUE(answer.ok()) << answer.error().message;
    return answer.ok() ? std::move(*answer) : PreparedAnswer{};
  }
  ApiError ChatError(const std::string& body) {
    ApiResult<PreparedAnswer> answer = PrepareChatCompletion(services_, body);
    EXPECT_FALSE(answer.ok());
    return answer.ok() ? ApiError{} : answer.error();
  }
  ApiError CompletionError(const std::string& body) {
    ApiResult<PreparedAnswer> answer = PrepareCompletion(services_, body);
    EXPECT_FALSE(answer.ok());
    return answer.ok() ? ApiError{} : answer.error();
  }
  HttpRequest Post(const std::string& body) {
    HttpRequest request;
    request.body = body;
    return request;
  }

  const TestModel& model_ = SharedTestModel();
  FakeEngine engine_{*model_.tokenizer, ObedientScripter(*model_.tokenizer),
                     /*max_model_len=*/1000};
  Services services_{Options(), engine_, *model_.tokenizer, model_.chat_template.get(),
                     model_.info};
};

TEST_F(Endpoints, ChatRendersTheTemplateAndTakesTheRestOfTheContext) {
  const PreparedAnswer answer = Chat(R"({"messages": [{"role": "user", "content": "Hi"}]})");
  ASSERT_EQ(answer.requests.size(), 1u);
  const engine::Request& request = answer.requests[0];
  EXPECT_EQ(DecodePrompt(request),
            "[gMASK]<sop><|system|>Reasoning Effort: Max<|user|>Hi<|assistant|><think>");
  EXPECT_EQ(request.max_tokens, 1000 - static_cast<int>(request.prompt.size()));
  EXPECT_EQ(request.stop_token_ids, model_.info.eos_token_ids);
  EXPECT_EQ(request.num_top_logprobs, -1);
  EXPECT_FALSE(answer.stream);
  EXPECT_EQ(answer.id.rfind("chatcmpl-", 0), 0u);
}

TEST_F(Endpoints, ChatPassesTemplateVariables) {
  EXPECT_THAT(DecodePrompt(Chat(R"({"messages": [{"role": "user", "content": "Hi"}],
                                    "chat_template_kwargs": {"enable_thinking": false}})")
                               .requests[0]),
              HasSubstr("<|assistant|><think></think>"));
  EXPECT_THAT(
      DecodePrompt(
          Chat(R"({"messages": [{"role": "user", "content": "Hi"}], "reasoning_effort": "high"})")
              .requests[0]),
      HasSubstr("Reasoning Effort: High"));
}

TEST_F(Endpoints, ToolsAreInThePromptUnlessToolChoiceIsNone) {
  const std::string tools = R"("tools": [{"type": "function", "function": {"name": "get_weather",
      "parameters": {"type": "object"}}}], "messages": [{"role": "user", "content": "Hi"}])";
  EXPECT_THAT(DecodePrompt(Chat("{" + tools + "}").requests[0]),
              HasSubstr("\"name\": \"get_weather\""));
  EXPECT_THAT(DecodePrompt(Chat(R"({"tool_choice": "none", )" + tools + "}").requests[0]),
              Not(HasSubstr("get_weather")));
}

TEST_F(Endpoints, ChoicesHaveConsecutiveSeedsAndUnseededOnesDiffer) {
  const std::string hi = R"("messages": [{"role": "user", "content": "Hi"}])";
  const PreparedAnswer answer = Chat(R"({"n": 3, "seed": 7, )" + hi + "}");
  ASSERT_EQ(answer.requests.size(), 3u);
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(answer.requests[i].sampling.seed, 7 + i);
  EXPECT_NE(Chat("{" + hi + "}").requests[0].sampling.seed,
            Chat("{" + hi + "}").requests[0].sampling.seed);
}

TEST_F(Endpoints, ChatRefusesWhatDoesNotFit) {
  ApiError error = ChatError(
      R"({"messages": [{"role": "user", "content": "Hi"}], "max_completion_tokens": 1000})");
  EXPECT_EQ(error.code, "context_length_exceeded");
  EXPECT_EQ(error.param, "max_completion_tokens");
  EXPECT_THAT(error.message, HasSubstr("over the limit of 1000"));
  error = ChatError(R"({"messages": [{"role": "user", "content": ")" + std::string(3000, '#') +
                    R"("}]})");
  EXPECT_EQ(error.code, "context_length_exceeded");
  EXPECT_EQ(error.param, "messages");
  EXPECT_THAT(error.message, HasSubstr("leaves no room"));
}

TEST_F(Endpoints, OnlyServedNamesAreAccepted) {
  const std::string rest = R"(, "messages": [{"role": "user", "content": "Hi"}]})";
  Chat(R"({"model": "alias")" + rest);
  const ApiError error = ChatError(R"({"model": "gpt-5")" + rest);
  EXPECT_EQ(error.http_status, 404);
  EXPECT_EQ(error.code, "model_not_found");
  EXPECT_THAT(error.message, HasSubstr("'org/test-model', 'alias'"));
}

TEST_F(Endpoints, LogitBiasMustNameTokensThatExist) {
  EXPECT_EQ(
      ChatError(R"({"messages": [{"role": "user", "content": "Hi"}], "logit_bias": {"100000": 1}})")
          .param,
      "logit_bias");
}

TEST_F(Endpoints, ChatWithoutATemplateSaysSo) {
  Services bare(Options(), engine_, *model_.tokenizer, nullptr, model_.info);
  const ApiResult<PreparedAnswer> answer =
      PrepareChatCompletion(bare, R"({"messages": [{"role": "user", "content": "Hi"}]})");
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, "no_chat_template");
}

TEST_F(Endpoints, CompletionsTakeTextAndTokenIds) {
  ApiResult<PreparedAnswer> answer = PrepareCompletion(
      services_, R"({"prompt": [[1, 2], [3]], "n": 2, "seed": 5, "logprobs": 2})");
  ASSERT_TRUE(answer.ok());
  ASSERT_EQ(answer->requests.size(), 4u);
  EXPECT_EQ(answer->requests[0].prompt, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(answer->requests[3].prompt, (std::vector<int32_t>{3}));
  // A prompt of a list is answered as it would be alone.
  EXPECT_EQ(answer->requests[0].sampling.seed, 5u);
  EXPECT_EQ(answer->requests[1].sampling.seed, 6u);
  EXPECT_EQ(answer->requests[2].sampling.seed, 5u);
  EXPECT_EQ(answer->requests[0].max_tokens, kDefaultCompletionTokens);
  EXPECT_EQ(answer->requests[0].num_top_logprobs, 2);
  EXPECT_EQ(CompletionError(R"({"prompt": [1, 100000]})").param, "prompt");
  EXPECT_EQ(CompletionError(R"({"prompt": "a", "max_tokens": 1000})").code,
            "context_length_exceeded");
}

// Where a continued message's prompt ends.
TEST_F(Endpoints, PromptsOfContinuedMessagesEndWithTheirText) {
  const auto render = [&](const std::string& last) {
    ApiResult<Json> body =
        ParseBody(R"({"messages": [{"role": "user", "content": "Hi"}, )" + last + "]}");
    FieldReader reader(*body);
    const ChatPrompt prompt = ReadChatPrompt(reader);
    EXPECT_TRUE(reader.ok()) << reader.error().message;
    ApiResult<RenderedPrompt> rendered = RenderChat(model_.chat_template.get(), prompt);
    EXPECT_TRUE(rendered.ok()) << rendered.error().message;
    return rendered.ok() ? *rendered : RenderedPrompt{};
  };
  const std::string head =
      "[gMASK]<sop><|system|>Reasoning Effort: Max<|user|>Hi<|assistant|><think>";
  RenderedPrompt rendered = render(R"({"role": "assistant", "content": "Hello, "})");
  EXPECT_EQ(rendered.text, head + "</think>Hello, ");
  EXPECT_FALSE(rendered.starts_in_reasoning);

  rendered = render(R"({"role": "assistant", "content": "It is", "reasoning_content": "Think."})");
  EXPECT_EQ(rendered.text, head + "Think.</think>It is");
  EXPECT_FALSE(rendered.starts_in_reasoning);

  rendered = render(R"({"role": "assistant", "reasoning_content": "I thin"})");
  EXPECT_EQ(rendered.text, head + "I thin");
  EXPECT_TRUE(rendered.starts_in_reasoning);

  rendered = render(R"({"role": "assistant", "content": [{"type": "text", "text": "One"}]})");
  EXPECT_EQ(rendered.text, head + "</think>One");

  rendered = render(R"({"role": "assistant", "content": ""})");
  EXPECT_EQ(rendered.text, head + "</think>");

  rendered = render(R"({"role": "assistant", "content": "So: <tool_call>f<arg_key>a"})");
  EXPECT_EQ(rendered.open_tool_call, "<tool_call>f<arg_key>a");
  rendered = render(R"({"role": "assistant", "content": "<tool_call>f</tool_call>"})");
  EXPECT_EQ(rendered.open_tool_call, "");
}

TEST_F(Endpoints, ModelsAreListedWithTheirContext) {
  HttpResponse response = ListModels(services_, {});
  const Json list = *ParseJson(response.body);
  ASSERT_EQ(list["data"].size(), 2u);
  EXPECT_EQ(list["data"][0]["id"], "org/test-model");
  EXPECT_EQ(list["data"][0]["max_model_len"], 1000);
  EXPECT_EQ(list["data"][0]["created"], 1'700'000'000);
  HttpRequest request;
  request.path = "/v1/models/org/test-model";
  EXPECT_EQ((*ParseJson(GetModel(services_, request).body))["id"], "org/test-model");
  request.path = "/v1/models/other";
  EXPECT_EQ(GetModel(services_, request).status, 404);
}

TEST_F(Endpoints, TokenizeAndDetokenizeGoBackAndForth) {
  HttpResponse response =
      Tokenize(services_, Post(R"({"prompt": "Hello w\u00f6rld", "return_token_strs": true})"));
  ASSERT_EQ(response.status, 200) << response.body;
  const Json tokens = *ParseJson(response.body);
  EXPECT_EQ(tokens["count"], tokens["tokens"].size());
  EXPECT_EQ(tokens["token_strs"].size(), tokens["tokens"].size());
  EXPECT_EQ(tokens["max_model_len"], 1000);
  response = Detokenize(services_, Post(DumpJson({{"tokens", tokens["tokens"]}})));
  EXPECT_EQ(response.body, "{\"prompt\":\"Hello w\xc3\xb6rld\"}");

  response = Tokenize(services_, Post(R"({"messages": [{"role": "user", "content": "Hi"}]})"));
  const Json chat = *ParseJson(response.body);
  EXPECT_TRUE(chat["token_strs"].is_null());
  response = Detokenize(services_, Post(DumpJson({{"tokens", chat["tokens"]}})));
  EXPECT_EQ((*ParseJson(response.body))["prompt"],
            "[gMASK]<sop><|system|>Reasoning Effort: Max<|user|>Hi<|assistant|><think>");

  EXPECT_EQ(Tokenize(services_, Post("{}")).status, 400);
  EXPECT_EQ(Detokenize(services_, Post(R"({"tokens": [1000000]})")).status, 400);
  EXPECT_EQ(Detokenize(services_, Post(R"({"tokens": [1], "model": "x"})")).status, 404);
}

TEST_F(Endpoints, StatusEndpointsTellTheState) {
  EXPECT_EQ(GetHealth(services_, {}).body, R"({"status":"ok"})");
  EXPECT_EQ(GetReady(services_, {}).status, 200);
  services_.draining = true;
  EXPECT_EQ(GetReady(services_, {}).status, 503);
  EXPECT_EQ(GetHealth(services_, {}).status, 200);
  EXPECT_EQ(GetVersion(services_, {}).body, std::string("{\"version\":\"") + Version() + "\"}");
}

TEST_F(Endpoints, MetricsCountWhatHappened) {
  services_.metrics.CountRequest("/v1/models", 200);
  services_.metrics.CountRequest("/v1/models", 200);
  services_.metrics.CountFinish("stop");
  services_.metrics.ObserveTimeToFirstToken(0.2);
  const std::string text = GetMetrics(services_, {}).body;
  EXPECT_THAT(text,
              HasSubstr("quern_http_requests_total{endpoint=\"/v1/models\",status=\"200\"} 2"));
  EXPECT_THAT(text, HasSubstr("quern_choices_finished_total{reason=\"stop\"} 1"));
  EXPECT_THAT(text, HasSubstr("quern_time_to_first_token_seconds_count 1"));
  EXPECT_THAT(text, HasSubstr("quern_requests_running 0"));
  EXPECT_THAT(text, HasSubstr("quern_kv_pages_total 100"));
}

TEST(Routes, FindsEndpointsAndMethods) {
  EXPECT_NE(FindRoute("POST", "/v1/chat/completions"), nullptr);
  EXPECT_EQ(FindRoute("GET", "/v1/chat/completions"), nullptr);
  EXPECT_NE(FindRoute("HEAD", "/health"), nullptr);
  EXPECT_NE(FindRoute("GET", "/v1/models/a/b"), nullptr);
  EXPECT_EQ(FindRoute("GET", "/v1/models/"), nullptr);
  EXPECT_EQ(FindRoute("GET", "/nothing"), nullptr);
  EXPECT_EQ(AllowedMethods("/health"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(AllowedMethods("/v1/completions"), "POST, OPTIONS");
  EXPECT_EQ(AllowedMethods("/nothing"), "");
  for (const Route& route : Routes()) {
    EXPECT_NE(route.simple == nullptr, route.generation == nullptr) << route.path;
  }
}

TEST(Dispatcher, ComparesKeysWhole) {
  EXPECT_TRUE(ConstantTimeEquals("secret", "secret"));
  EXPECT_FALSE(ConstantTimeEquals("secre", "secret"));
  EXPECT_FALSE(ConstantTimeEquals("secretsecret", "secret"));
  EXPECT_FALSE(ConstantTimeEquals("", "secret"));
  EXPECT_FALSE(ConstantTimeEquals("x", ""));
}

TEST(Dispatcher, SendsCorsHeadersToAllowedOriginsOnly) {
  ServerOptions options;
  EXPECT_TRUE(CorsHeaders(options, "http://a").empty());
  options.cors_origins = {"http://a"};
  EXPECT_FALSE(CorsHeaders(options, "http://a").empty());
  EXPECT_TRUE(CorsHeaders(options, "http://b").empty());
  options.cors_origins = {"*"};
  EXPECT_EQ(CorsHeaders(options, "http://b")[0].second, "*");
}

TEST(Message, DecodesPercentEscapes) {
  EXPECT_EQ(PercentDecode("/v1/models/a%2Fb%20c"), "/v1/models/a/b c");
  EXPECT_EQ(PercentDecode("%"), "%");
  EXPECT_EQ(PercentDecode("%zz%4"), "%zz%4");
}

TEST(Message, FormatsHeadsAndChunks) {
  EXPECT_EQ(FormatChunk(""), "");
  EXPECT_EQ(FormatChunk("0123456789abcdef"), "10\r\n0123456789abcdef\r\n");
  HttpResponse response = JsonResponse({{"a", 1}});
  EXPECT_THAT(FormatHead(response, Framing::kLength, true), HasSubstr("Content-Length: 7\r\n"));
  EXPECT_THAT(FormatHead(response, Framing::kChunked, false),
              HasSubstr("Transfer-Encoding: chunked\r\n"));
  EXPECT_THAT(FormatHead(response, Framing::kUntilClose, false), Not(HasSubstr("Content-Length")));
}

}  // namespace
}  // namespace quern::server
