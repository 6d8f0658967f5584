// Bodies of the OpenAI endpoints, and of /tokenize, to structs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/server/openai/chat_request.h"
#include "quern/server/openai/completion_request.h"
#include "quern/server/tokenize_request.h"

namespace quern::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ChatRequest Chat(const std::string& body) {
  ApiResult<ChatRequest> request = ParseChatRequest(body, {});
  EXPECT_TRUE(request.ok()) << request.error().message;
  return request.ok() ? *request : ChatRequest{};
}

ApiError ChatError(const std::string& body) {
  const ApiResult<ChatRequest> request = ParseChatRequest(body, {});
  EXPECT_FALSE(request.ok()) << body << " was accepted";
  return request.ok() ? ApiError{} : request.error();
}

// A body with one user message and `more` fields.
std::string Hi(const std::string& more) {
  return R"({"messages": [{"role": "user", "content": "Hi"}])" + (more.empty() ? "" : ", " + more) +
         "}";
}
std::string Messages(const std::string& list) { return R"({"messages": [)" + list + "]}"; }

TEST(ChatRequest, NormalizesMessages) {
  const ChatRequest request = Chat(Messages(R"(
      {"role": "developer", "content": "Be brief.", "name": null},
      {"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": "x"}}]},
      {"role": "assistant", "content": null, "reasoning": "hm", "refusal": null, "function_call": null,
       "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
      {"role": "tool", "tool_call_id": "1", "content": "42"},
      {"role": "assistant", "content": "It is 42.", "tool_calls": []},
      {"role": "user", "content": "Thanks"})"));
  EXPECT_EQ(
      DumpJson(request.prompt.messages),
      R"([{"role":"system","content":"Be brief."},)"
      R"({"role":"user","content":[{"type":"text","text":"Look"},{"type":"image_url","image_url":{"url":"x"}}]},)"
      R"({"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":)"
      R"({"name":"f","arguments":"{\"a\": 1}"}}],"reasoning_content":"hm"},)"
      R"({"role":"tool","tool_call_id":"1","content":"42"},)"
      R"({"role":"assistant","content":"It is 42."},)"
      R"({"role":"user","content":"Thanks"}])");
  EXPECT_TRUE(request.prompt.add_generation_prompt);
  EXPECT_FALSE(request.prompt.continue_final_message);
}

TEST(ChatRequest, CallsWithoutArgumentsHaveAnEmptyObject) {
  for (const char* function : {R"({"name": "f"})", R"({"name": "f", "arguments": null})",
                               R"({"name": "f", "arguments": ""})"}) {
    const ChatRequest request =
        Chat(Messages(R"({"role": "assistant", "tool_calls": [{"id": "1", "function": )" +
                      std::string(function) + R"(}]}, {"role": "tool", "content": "x"})"));
    EXPECT_EQ(request.prompt.messages[0]["tool_calls"][0]["function"]["arguments"], "{}");
  }
}

TEST(ChatRequest, ContinuesALastAssistantMessage) {
  const char* kLast =
      R"({"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hel"})";
  const ChatRequest request = Chat(Messages(kLast));
  EXPECT_TRUE(request.prompt.continue_final_message);
  EXPECT_FALSE(request.prompt.add_generation_prompt);
  const ChatRequest asked =
      Chat(R"({"add_generation_prompt": true, "messages": [)" + std::string(kLast) + "]}");
  EXPECT_FALSE(asked.prompt.continue_final_message);
  EXPECT_TRUE(asked.prompt.add_generation_prompt);
  EXPECT_EQ(ChatError(Hi(R"("continue_final_message": true)")).param, "continue_final_message");
}

TEST(ChatRequest, ReadsToolsAndTemplateVariables) {
  const ChatRequest request =
      Chat(Hi(R"("tools": [{"type": "function", "function": {"name": "f", "parameters":
      {"type": "object"}, "strict": true}}], "tool_choice": "auto", "parallel_tool_calls": true,
      "reasoning_effort": "high", "chat_template_kwargs": {"enable_thinking": false})"));
  EXPECT_EQ(request.prompt.tools.size(), 1u);
  EXPECT_TRUE(request.prompt.tools_in_prompt);
  EXPECT_EQ(DumpJson(request.prompt.kwargs),
            R"({"enable_thinking":false,"reasoning_effort":"high"})");
  EXPECT_FALSE(Chat(Hi(R"("tool_choice": "none")")).prompt.tools_in_prompt);
  EXPECT_EQ(DumpJson(Chat(Hi(R"("reasoning_effort": "none")")).prompt.kwargs),
            R"({"reasoning_effort":"none","enable_thinking":false})");
}

TEST(ChatRequest, TakesHarmlessFields) {
  const ChatRequest request =
      Chat(Hi(R"("model": "m", "user": "u", "metadata": {"a": "b"}, "store": false,
      "service_tier": "auto", "response_format": {"type": "text"}, "modalities": ["text"], "functions": null,
      "logprobs": true, "top_logprobs": 5, "audio": null, "safety_identifier": "x", "prompt_cache_key": "y")"));
  EXPECT_EQ(request.model, "m");
  EXPECT_TRUE(request.logprobs);
  EXPECT_EQ(request.top_logprobs, 5);
}

TEST(ChatRequest, NamesTheFieldOfEveryWrongValue) {
  const std::pair<std::string, const char*> kCases[] = {
      {"{}", "messages"},
      {R"({"messages": []})", "messages"},
      {R"({"messages": "Hi"})", "messages"},
      {R"({"messages": {"role": "user"}})", "messages"},
      {Messages("5"), "messages[0]"},
      {Messages("null"), "messages[0]"},
      {Messages("{}"), "messages[0].role"},
      {Messages(R"({"role": 5, "content": "x"})"), "messages[0].role"},
      {Messages(R"({"role": "robot", "content": "x"})"), "messages[0].role"},
      {Messages(R"({"role": "function", "content": "x"})"), "messages[0].role"},
      {Messages(R"({"role": "user"})"), "messages[0].content"},
      {Messages(R"({"role": "user", "content": null})"), "messages[0].content"},
      {Messages(R"({"role": "user", "content": 5})"), "messages[0].content"},
      {Messages(R"({"role": "user", "content": {"text": "x"}})"), "messages[0].content"},
      {Messages(R"({"role": "user", "content": [5]})"), "messages[0].content[0]"},
      {Messages(R"({"role": "user", "content": [{}]})"), "messages[0].content[0].type"},
      {Messages(R"({"role": "user", "content": [{"type": "text"}]})"),
       "messages[0].content[0].text"},
      {Messages(R"({"role": "user", "content": [{"type": "text", "text": 1}]})"),
       "messages[0].content[0].text"},
      {Messages(R"({"role": "user", "content": [{"type": "hologram"}]})"),
       "messages[0].content[0].type"},
      {Messages(R"({"role": "assistant"})"), "messages[0].content"},
      {Messages(R"({"role": "assistant", "reasoning_content": 5})"),
       "messages[0].reasoning_content"},
      {Messages(R"({"role": "assistant", "tool_calls": "f"})"), "messages[0].tool_calls"},
      {Messages(R"({"role": "assistant", "tool_calls": [5]})"), "messages[0].tool_calls[0]"},
      {Messages(R"({"role": "assistant", "tool_calls": [{}]})"),
       "messages[0].tool_calls[0].function"},
      {Messages(R"({"role": "assistant", "tool_calls": [{"type": "custom"}]})"),
       "messages[0].tool_calls[0].type"},
      {Messages(R"({"role": "assistant", "tool_calls": [{"function": {}}]})"),
       "messages[0].tool_calls[0].function.name"},
      {Messages(
           R"({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]})"),
       "messages[0].tool_calls[0].function.arguments"},
      {Messages(
           R"({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 5}}]})"),
       "messages[0].tool_calls[0].function.arguments"},
      {Messages(R"({"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]})"),
       "messages"},
      {Messages(R"({"role": "assistant", "content": "x", "function_call": {"name": "f"}})"),
       "messages[0].function_call"},
      {Hi(R"("tools": {})"), "tools"},
      {Hi(R"("tools": [1])"), "tools[0]"},
      {Hi(R"("tools": [{"type": "web_search"}])"), "tools[0].type"},
      {Hi(R"("tools": [{"type": "function"}])"), "tools[0].function"},
      {Hi(R"("tools": [{"type": "function", "function": {"name": ""}}])"),
       "tools[0].function.name"},
      {Hi(R"("tools": [{"type": "function", "function": {"name": "f", "parameters": []}}])"),
       "tools[0].function.parameters"},
      {Hi(R"("tool_choice": "required")"), "tool_choice"},
      {Hi(R"("tool_choice": {"type": "function", "function": {"name": "f"}})"), "tool_choice"},
      {Hi(R"("parallel_tool_calls": false)"), "parallel_tool_calls"},
      {Hi(R"("chat_template_kwargs": [])"), "chat_template_kwargs"},
      {Hi(R"("chat_template_kwargs": {"messages": []})"), "chat_template_kwargs.messages"},
      {Hi(R"("reasoning_effort": 3)"), "reasoning_effort"},
      {Hi(R"("logprobs": 5)"), "logprobs"},
      {Hi(R"("top_logprobs": 5)"), "top_logprobs"},
      {Hi(R"("logprobs": true, "top_logprobs": 21)"), "top_logprobs"},
      {Hi(R"("response_format": {"type": "json_object"})"), "response_format"},
      {Hi(R"("response_format": {})"), "response_format"},
      {Hi(R"("modalities": ["text", "audio"])"), "modalities"},
      {Hi(R"("store": true)"), "store"},
      {Hi(R"("echo": true)"), "echo"},
      {Hi(R"("functions": [])"), "functions"},
      {Hi(R"("web_search_options": {})"), "web_search_options"},
      {Hi(R"("prediction": {"type": "content"})"), "prediction"},
      {Hi(R"("best_of": 2)"), "best_of"},
      {Hi(R"("user": 5)"), "user"},
      {Hi(R"("metadata": "x")"), "metadata"},
      {Hi(R"("model": 5)"), "model"},
      {Hi(R"("temprature": 1)"), "temprature"},
      {Hi(R"("add_generation_prompt": true, "continue_final_message": true)"),
       "continue_final_message"},
  };
  for (const auto& [body, param] : kCases) {
    SCOPED_TRACE(body);
    const ApiError error = ChatError(body);
    EXPECT_EQ(error.param, param) << error.message;
    EXPECT_EQ(error.http_status, 400);
  }
  EXPECT_THAT(ChatError(Hi(R"("prediction": {})")).message,
              HasSubstr("'prediction' is not implemented"));
}

CompletionRequest Completion(const std::string& body) {
  ApiResult<CompletionRequest> request = ParseCompletionRequest(body, {});
  EXPECT_TRUE(request.ok()) << request.error().message;
  return request.ok() ? *request : CompletionRequest{};
}

TEST(CompletionRequest, TakesEveryFormOfPrompt) {
  using Ids = std::vector<int32_t>;
  EXPECT_THAT(Completion(R"({"prompt": "a"})").prompts, ElementsAre(PromptInput("a")));
  EXPECT_THAT(Completion(R"({"prompt": ["a", "b"]})").prompts,
              ElementsAre(PromptInput("a"), PromptInput("b")));
  EXPECT_THAT(Completion(R"({"prompt": [1, 2]})").prompts, ElementsAre(PromptInput(Ids{1, 2})));
  EXPECT_THAT(Completion(R"({"prompt": [[1], [2, 3]]})").prompts,
              ElementsAre(PromptInput(Ids{1}), PromptInput(Ids{2, 3})));
  const CompletionRequest request =
      Completion(R"({"prompt": "a", "logprobs": 3, "echo": false, "best_of": 1,
                                                   "suffix": null, "n": 2})");
  EXPECT_EQ(request.num_top_logprobs, 3);
  EXPECT_EQ(request.fields.num_choices, 2);
  EXPECT_EQ(Completion(R"({"prompt": "a"})").num_top_logprobs, -1);
  EXPECT_EQ(Completion(R"({"prompt": "a", "logprobs": 0})").num_top_logprobs, 0);
}

TEST(CompletionRequest, NamesTheFieldOfEveryWrongValue) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"({})", "prompt"},
      {R"({"prompt": null})", "prompt"},
      {R"({"prompt": ""})", "prompt"},
      {R"({"prompt": []})", "prompt"},
      {R"({"prompt": [[]]})", "prompt"},
      {R"({"prompt": 5})", "prompt"},
      {R"({"prompt": {}})", "prompt"},
      {R"({"prompt": [1, "a"]})", "prompt"},
      {R"({"prompt": ["a", 1]})", "prompt"},
      {R"({"prompt": ["a", ""]})", "prompt"},
      {R"({"prompt": [1.5]})", "prompt"},
      {R"({"prompt": [-1]})", "prompt"},
      {R"({"prompt": [99999999999]})", "prompt"},
      {R"({"prompt": [[1], [2, "x"]]})", "prompt[1]"},
      {R"({"prompt": "a", "echo": true})", "echo"},
      {R"({"prompt": "a", "best_of": 2})", "best_of"},
      {R"({"prompt": "a", "suffix": "x"})", "suffix"},
      {R"({"prompt": "a", "logprobs": true})", "logprobs"},
      {R"({"prompt": "a", "logprobs": 21})", "logprobs"},
      {R"({"prompt": "a", "messages": []})", "messages"},
  };
  for (const auto& [body, param] : kCases) {
    SCOPED_TRACE(body);
    const ApiResult<CompletionRequest> request = ParseCompletionRequest(body, {});
    ASSERT_FALSE(request.ok());
    EXPECT_EQ(request.error().param, param) << request.error().message;
  }
}

TEST(CompletionRequest, BoundsPromptsTimesN) {
  std::string prompts = "[\"a\"";
  for (int i = 0; i < 99; ++i) prompts += ", \"a\"";
  EXPECT_TRUE(ParseCompletionRequest(R"({"n": 10, "prompt": )" + prompts + "]}", {}).ok());
  const auto request = ParseCompletionRequest(R"({"n": 11, "prompt": )" + prompts + "]}", {});
  ASSERT_FALSE(request.ok());
  EXPECT_EQ(request.error().param, "n");
}

TEST(TokenizeRequest, TakesTextOrMessages) {
  const auto text = ParseTokenizeRequest(R"({"prompt": "", "return_token_strs": true})");
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->text, "");
  EXPECT_TRUE(text->add_special_tokens);
  EXPECT_TRUE(text->return_token_strs);
  const auto chat =
      ParseTokenizeRequest(Hi(R"("tools": [{"type": "function", "function": {"name": "f"}}])"));
  ASSERT_TRUE(chat.ok());
  EXPECT_FALSE(chat->add_special_tokens);
  EXPECT_EQ(chat->chat.tools.size(), 1u);
  for (const char* body : {"{}", R"({"prompt": 5})", R"({"prompt": "a", "messages": []})",
                           R"({"messages": []})", R"({"prompt": "a", "other": 1})"}) {
    EXPECT_FALSE(ParseTokenizeRequest(body).ok()) << body;
  }
}

TEST(DetokenizeRequest, TakesTokens) {
  const auto request = ParseDetokenizeRequest(R"({"tokens": [1, 2], "model": "m"})");
  ASSERT_TRUE(request.ok());
  EXPECT_THAT(request->tokens, ElementsAre(1, 2));
  EXPECT_TRUE(ParseDetokenizeRequest(R"({"tokens": []})").ok());
  for (const char* body :
       {"{}", R"({"tokens": "a"})", R"({"tokens": ["a"]})", R"({"tokens": [-1]})",
        R"({"tokens": [1.5]})", R"({"tokens": [1], "other": 1})"}) {
    EXPECT_FALSE(ParseDetokenizeRequest(body).ok()) << body;
  }
}

}  // namespace
}  // namespace quern::server
