#include "quern/text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "quern/base/file.h"

namespace quern::text {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Glm52() {
  return ReadFile(std::string(QUERN_SOURCE_DIR) + "/tests/data/chat/glm-5.2.jinja").value();
}

Json ParseOrDie(std::string_view text) { return ParseJson(text).value(); }

std::string RenderGlm52(const Json& context) {
  const auto compiled = ChatTemplate::FromSource(Glm52()).value()->Render(context);
  EXPECT_TRUE(compiled.ok()) << compiled.status().ToString();
  return compiled.ok() ? *compiled : "";
}

std::string OneUserMessage(const std::string& more) {
  return RenderGlm52(ParseOrDie(R"({"messages": [{"role": "user", "content": "Hi"}],
                                    "add_generation_prompt": true)" +
                                more + "}"));
}

TEST(ChatTemplate, Glm52OneUserMessage) {
  const std::string max =
      "[gMASK]<sop><|system|>Reasoning Effort: Max<|user|>Hi<|assistant|><think>";
  EXPECT_EQ(OneUserMessage(""), max);
  EXPECT_EQ(OneUserMessage(R"(, "reasoning_effort": "high")"),
            "[gMASK]<sop><|system|>Reasoning Effort: High<|user|>Hi<|assistant|><think>");
  for (const char* effort : {"low", "medium", "none", "High", "max", ""}) {
    EXPECT_EQ(OneUserMessage(std::string(R"(, "reasoning_effort": ")") + effort + '"'), max);
  }
  EXPECT_EQ(OneUserMessage(R"(, "enable_thinking": false, "reasoning_effort": "high")"),
            "[gMASK]<sop><|user|>Hi<|assistant|><think></think>");
  EXPECT_EQ(OneUserMessage(R"(, "thinking": false)"), max);
}

constexpr std::string_view kToolsJson = R"([
  {"type": "function", "function": {"name": "get_weather", "description": "Get weather",
   "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}},
  {"type": "function", "function": {"name": "now", "description": "时间",
   "parameters": {"type": "object", "properties": {}}}}])";

constexpr std::string_view kToolsBlock = R"(<|system|>
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{"name": "get_weather", "description": "Get weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
{"name": "now", "description": "时间", "parameters": {"type": "object", "properties": {}}}
</tools>

For each function call, output the function name and arguments within the following XML format:
<tool_call>{function-name}<arg_key>{arg-key-1}</arg_key><arg_value>{arg-value-1}</arg_value><arg_key>{arg-key-2}</arg_key><arg_value>{arg-value-2}</arg_value>...</tool_call>)";

Json ToolLoop() {
  Json context = ParseOrDie(R"({"add_generation_prompt": true, "messages": [
      {"role": "system", "content": "Be brief."},
      {"role": "user", "content": "Weather in Paris?"},
      {"role": "assistant", "content": "Let me look.", "reasoning_content": "I need the tool.",
       "tool_calls": [
         {"type": "function", "function": {"name": "get_weather",
                                           "arguments": "{\"city\": \"Paris\", \"days\": 2}"}},
         {"type": "function", "function": {"name": "now", "arguments": "{}"}}]},
      {"role": "tool", "content": "{\"t\": 21}"},
      {"role": "tool", "content": "noon"}]})");
  context["tools"] = ParseOrDie(kToolsJson);
  return context;
}

TEST(ChatTemplate, Glm52ToolLoop) {
  const std::string expected =
      "[gMASK]<sop><|system|>Reasoning Effort: Max" + std::string(kToolsBlock) +
      "<|system|>Be brief.<|user|>Weather in Paris?<|assistant|><think>I need the tool.</think>Let "
      "me look.<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value><arg_key>"
      "days</arg_key><arg_value>2</arg_value></tool_call><tool_call>now</tool_call>"
      "<|observation|><tool_response>{\"t\": 21}</tool_response><tool_response>noon"
      "</tool_response><|assistant|><think>";
  EXPECT_EQ(RenderGlm52(ToolLoop()), expected);
}

TEST(ChatTemplate, Glm52ClearThinking) {
  Json context = ToolLoop();
  context["messages"].push_back(
      {{"role", "assistant"}, {"content", "It is 21 C."}, {"reasoning_content", "Done."}});
  context["messages"].push_back({{"role", "user"}, {"content", "Thanks"}});
  const std::string cleared = RenderGlm52(context);
  EXPECT_THAT(cleared, Not(HasSubstr("I need the tool.")));
  EXPECT_THAT(cleared, HasSubstr("<|assistant|><think></think>Let me look."));
  EXPECT_THAT(cleared, HasSubstr("<|assistant|><think></think>It is 21 C.<|user|>Thanks"));
  context["clear_thinking"] = false;
  const std::string kept = RenderGlm52(context);
  EXPECT_THAT(kept, HasSubstr("<think>I need the tool.</think>Let me look."));
  EXPECT_THAT(kept, HasSubstr("<think>Done.</think>It is 21 C."));
}

TEST(ChatTemplate, ArgumentsThatAreNoObjectAreNamed) {
  for (const auto& [arguments, complaint] :
       {std::pair{"[1]", "are a JSON array; want an object"}, {"{oops", "are not JSON"}}) {
    Json context = ToolLoop();
    context["messages"][2]["tool_calls"][0]["function"]["arguments"] = arguments;
    const auto text = ChatTemplate::FromSource(Glm52()).value()->Render(context);
    ASSERT_FALSE(text.ok());
    EXPECT_EQ(text.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(text.status().message(), HasSubstr("messages[2]"));
    EXPECT_THAT(text.status().message(), HasSubstr("get_weather"));
    EXPECT_THAT(text.status().message(), HasSubstr(complaint));
  }
}

TEST(ChatTemplate, NullContentPrintsNothing) {
  const auto compiled =
      ChatTemplate::FromSource("{% for m in messages %}[{{ m.content }}]{% endfor %}").value();
  const Json context =
      ParseOrDie(R"({"messages": [{"role": "assistant", "content": null}, {"content": "x"}]})");
  EXPECT_EQ(compiled->Render(context).value(), "[][x]");
}

TEST(ChatTemplate, WrongContextsAreRefused) {
  const auto compiled = ChatTemplate::FromSource("{{ messages }}").value();
  for (const char* context : {"[]", "null", R"({"messages": {}})", R"({"messages": ["a"]})"}) {
    const auto text = compiled->Render(ParseOrDie(context));
    ASSERT_FALSE(text.ok()) << context;
    EXPECT_THAT(text.status().message(), HasSubstr("want an")) << context;
  }
}

TEST(ChatTemplate, ErrorsNameTheLine) {
  const auto broken = ChatTemplate::FromSource("a\nb\n{% if %}\n");
  ASSERT_FALSE(broken.ok());
  EXPECT_THAT(broken.status().message(), HasSubstr("line 3"));
  for (const char* source : {"{{", "{% for %}", "{% endif %}", "{{ 'a }}", "{% unknown %}", "{%",
                             "{{ a | nofilter }}", "\xff\xfe"}) {
    const auto result = ChatTemplate::FromSource(source);
    const bool fails_late = result.ok() && !(*result)->Render(Json::object()).ok();
    EXPECT_TRUE(!result.ok() || fails_late) << source;
  }
  const auto late = ChatTemplate::FromSource("a\n\n{{ messages.x.y }}").value();
  const auto text = late->Render(ParseOrDie(R"({"messages": []})"));
  ASSERT_FALSE(text.ok());
  EXPECT_THAT(text.status().message(), HasSubstr("line 3"));
}

TEST(ChatTemplate, EndlessTemplatesEnd) {
  for (const char* source :
       {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% for k in range(99999) %}"
        "{% endfor %}{% endfor %}{% endfor %}"}) {
    const auto compiled = ChatTemplate::FromSource(source).value();
    EXPECT_FALSE(compiled->Render(Json::object()).ok()) << source;
  }
  const std::string deep(5000, '(');
  EXPECT_FALSE(ChatTemplate::FromSource("{{ " + deep).ok());
}

// Half of a template, or one with a character changed, is an error or prints something; it never
// crashes.
TEST(ChatTemplate, DamagedSourcesNeverCrash) {
  const std::string source = Glm52();
  const Json context = ToolLoop();
  std::mt19937 rng(13);
  constexpr std::string_view kCharacters = "{}%#-()[]'\"|.,:~=x1 \n\\";
  int compiled_count = 0;
  for (int round = 0; round < 400; ++round) {
    std::string damaged = source.substr(0, round % 4 == 0 ? rng() % source.size() : source.size());
    for (uint32_t changes = rng() % 4; changes > 0 && !damaged.empty(); --changes) {
      damaged[rng() % damaged.size()] = kCharacters[rng() % kCharacters.size()];
    }
    const auto compiled = ChatTemplate::FromSource(damaged);
    if (!compiled.ok()) {
      EXPECT_THAT(compiled.status().message(), HasSubstr("line "));
      continue;
    }
    ++compiled_count;
    const auto text = (*compiled)->Render(context);
    EXPECT_TRUE(text.ok() || text.status().code() == StatusCode::kInvalidArgument);
  }
  EXPECT_GT(compiled_count, 50);
}

TEST(ChatTemplate, StrftimeNowPrintsTheYear) {
  const auto compiled = ChatTemplate::FromSource("{{ strftime_now('%Y-%m-%d') }}").value();
  const std::string today = compiled->Render(Json::object()).value();
  EXPECT_EQ(today.size(), 10u);
  EXPECT_GE(today.substr(0, 4), "2025");
}

class CheckpointFolder : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(path_); }
  void TearDown() override { std::filesystem::remove_all(path_); }
  void Write(const std::string& name, const std::string& content) {
    std::ofstream(path_ + "/" + name) << content;
  }
  const std::string path_ = testing::TempDir() + "/quern_chat_template_test";
};

TEST_F(CheckpointFolder, TheJinjaFileComesFirst) {
  Write("chat_template.jinja", "from jinja");
  Write("tokenizer_config.json", R"({"chat_template": "from config"})");
  EXPECT_EQ(ChatTemplate::FromCheckpoint(path_).value()->Render(Json::object()).value(),
            "from jinja");
}

TEST_F(CheckpointFolder, ConfigHoldsAStringOrAList) {
  Write("tokenizer_config.json", R"({"chat_template": "from config"})");
  EXPECT_EQ(ChatTemplate::FromCheckpoint(path_).value()->Render(Json::object()).value(),
            "from config");
  Write("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "no"},
                                                       {"name": "default", "template": "yes"}]})");
  EXPECT_EQ(ChatTemplate::FromCheckpoint(path_).value()->Render(Json::object()).value(), "yes");
}

TEST_F(CheckpointFolder, SpecialTokensAreVariables) {
  Write("chat_template.jinja", "{{ bos_token }}{{ eos_token }}{{ pad_token }}");
  Write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}})");
  const auto compiled = ChatTemplate::FromCheckpoint(path_).value();
  EXPECT_EQ(compiled->Render(Json::object()).value(), "<s></s>");
  EXPECT_EQ(compiled->Render({{"bos_token", "x"}}).value(), "x</s>");
}

TEST_F(CheckpointFolder, MissingAndBrokenTemplatesAreNamed) {
  EXPECT_EQ(ChatTemplate::FromCheckpoint(path_).status().code(), StatusCode::kNotFound);
  Write("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "no"}, 3]})");
  EXPECT_EQ(ChatTemplate::FromCheckpoint(path_).status().code(), StatusCode::kNotFound);
  Write("tokenizer_config.json", "{");
  EXPECT_EQ(ChatTemplate::FromCheckpoint(path_).status().code(), StatusCode::kInvalidArgument);
  Write("chat_template.jinja", "x\n{% if %}");
  const auto broken = ChatTemplate::FromCheckpoint(path_);
  EXPECT_THAT(broken.status().message(), HasSubstr("chat_template.jinja"));
  EXPECT_THAT(broken.status().message(), HasSubstr("line 2"));
}

}  // namespace
}  // namespace quern::text
