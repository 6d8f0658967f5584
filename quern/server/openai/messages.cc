#include "quern/server/openai/messages.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace quern::server {
namespace {

constexpr size_t kMaxToolNameBytes = 256;

bool IsOneOf(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// One item of a content list. Media items are passed on: the template says what becomes of them.
void CheckPart(FieldReader& reader, const Json& part, const std::string& name,
               bool is_tool_message) {
  if (part.is_string()) return;
  FieldReader fields(part, name);
  const std::optional<std::string> type = fields.String("type");
  if (fields.ok() && !type) {
    // Tool results may come as {"output": ...} items.
    if (is_tool_message && part.contains("output")) return;
    fields.Fail("type",
                name + ".type is missing; want for example {\"type\": \"text\", \"text\": \"...\"}",
                "missing_field");
  } else if (type && (*type == "text" || *type == "refusal")) {
    const char* key = *type == "text" ? "text" : "refusal";
    if (!fields.String(key)) {
      fields.Fail(key, fmt::format("{}.{} is missing, want a string", name, key), "missing_field");
    }
  } else if (type && !is_tool_message &&
             !IsOneOf(*type, {"image_url", "image", "video_url", "video", "input_audio",
                              "audio_url", "audio"})) {
    fields.Fail("type",
                fmt::format("{}.type: got {}, want text, image_url, video_url or input_audio", name,
                            DescribeJson(Json(*type))),
                "invalid_value");
  }
  if (!fields.ok()) reader.Fail(fields.error());
}

// content: a string, a list of parts, or null where `may_be_null`.
void CheckContent(FieldReader& reader, const Json& message, const std::string& name,
                  bool may_be_null, bool is_tool_message) {
  const auto it = message.find("content");
  const std::string path = name + ".content";
  if (it == message.end() || it->is_null()) {
    if (!may_be_null) {
      reader.Fail(path, path + " is missing, want a string or a list of content parts",
                  "missing_field");
    }
    return;
  }
  if (it->is_string()) return;
  if (!it->is_array()) {
    reader.Fail(path,
                fmt::format("{}: got {}, want a string or a list of content parts", path,
                            DescribeJson(*it)),
                "invalid_type");
    return;
  }
  for (size_t i = 0; i < it->size(); ++i) {
    CheckPart(reader, (*it)[i], fmt::format("{}[{}]", path, i), is_tool_message);
  }
}

void CheckToolCall(FieldReader& reader, const Json& call, const std::string& name) {
  FieldReader fields(call, name);
  fields.String("id");
  if (const auto type = fields.String("type"); type && *type != "function") {
    fields.Fail("type",
                fmt::format("{}.type: got {}, want \"function\"", name, DescribeJson(Json(*type))),
                "unsupported_value");
  }
  const Json* function = fields.Object("function");
  if (fields.ok() && function == nullptr) {
    fields.Fail("function", name + ".function is missing, want {\"name\": ..., \"arguments\": ...}",
                "missing_field");
  }
  if (fields.ok()) {
    FieldReader inner(*function, name + ".function");
    const auto called = inner.String("name");
    if (inner.ok() && (!called || called->empty())) {
      inner.Fail("name", name + ".function.name is missing, want the function's name",
                 "missing_field");
    }
    const Json* arguments = inner.Find("arguments");
    if (arguments != nullptr && !arguments->is_string() && !arguments->is_object()) {
      inner.Fail("arguments",
                 fmt::format("{}.function.arguments: got {}, want a string of JSON", name,
                             DescribeJson(*arguments)),
                 "invalid_type");
    } else if (arguments != nullptr && arguments->is_string() && *arguments != "") {
      const auto parsed = ParseJson(arguments->get_ref<const std::string&>());
      if (!parsed.ok() || !parsed->is_object()) {
        inner.Fail("arguments",
                   fmt::format("{}.function.arguments: got {}, which is not a JSON object", name,
                               DescribeJson(*arguments)),
                   "invalid_value");
      }
    }
    if (!inner.ok()) fields.Fail(inner.error());
  }
  if (!fields.ok()) reader.Fail(fields.error());
}

void DropNulls(Json& object) {
  std::vector<std::string> names;
  for (const auto& [key, value] : object.items()) {
    if (value.is_null() && key != "content") names.push_back(key);
  }
  for (const std::string& name : names) object.erase(name);
}

void ReadAssistant(FieldReader& fields, FieldReader& reader, Json& message,
                   const std::string& name) {
  // Some clients send back what other servers call it.
  if (fields.String("reasoning") && !fields.String("reasoning_content")) {
    message["reasoning_content"] = message["reasoning"];
    message.erase("reasoning");
  }
  const bool has_reasoning =
      fields.String("reasoning_content").has_value() || message.contains("reasoning_content");
  const Json* calls = fields.Array("tool_calls");
  const size_t num_calls = calls == nullptr ? 0 : calls->size();
  for (size_t i = 0; i < num_calls; ++i) {
    CheckToolCall(reader, (*calls)[i], fmt::format("{}.tool_calls[{}]", name, i));
  }
  if (!fields.ok() || !reader.ok()) return;
  if (calls != nullptr && num_calls == 0) message.erase("tool_calls");
  for (size_t i = 0; i < num_calls; ++i) {
    // A call without arguments, in the ways clients write it.
    Json& arguments = message["tool_calls"][i]["function"]["arguments"];
    if (arguments.is_null() || arguments == "") arguments = "{}";
  }
  CheckContent(reader, message, name, /*may_be_null=*/num_calls > 0 || has_reasoning,
               /*is_tool_message=*/false);
  if (!message.contains("content")) message["content"] = nullptr;
}

Json ReadMessage(FieldReader& reader, const Json& value, size_t index) {
  const std::string name = fmt::format("messages[{}]", index);
  Json message = value;
  if (message.is_object()) DropNulls(message);
  FieldReader fields(message, name);
  const auto role = fields.String("role");
  fields.String("name");
  fields.String("tool_call_id");
  fields.Refuse("function_call");
  fields.Refuse("audio");
  if (fields.ok() && !role) {
    fields.Fail("role", name + ".role is missing, want system, user, assistant or tool",
                "missing_field");
  } else if (fields.ok() && !IsOneOf(*role, {"system", "developer", "user", "assistant", "tool"})) {
    fields.Fail("role",
                fmt::format("{}.role: got {}, want system, developer, user, assistant or tool",
                            name, DescribeJson(Json(*role))),
                "invalid_value");
  } else if (fields.ok() && *role == "assistant") {
    ReadAssistant(fields, reader, message, name);
  } else if (fields.ok()) {
    CheckContent(reader, message, name, /*may_be_null=*/false, /*is_tool_message=*/*role == "tool");
    if (*role == "developer") message["role"] = "system";
  }
  if (!fields.ok()) reader.Fail(fields.error());
  return message;
}

void ReadMessages(FieldReader& reader, ChatPrompt& prompt) {
  const Json* messages = reader.Array("messages");
  if (!reader.ok()) return;
  if (messages == nullptr || messages->empty()) {
    reader.Fail("messages",
                "messages is missing or empty; want a list such as [{\"role\": \"user\", "
                "\"content\": \"Hi\"}]",
                "missing_field");
    return;
  }
  for (size_t i = 0; i < messages->size() && reader.ok(); ++i) {
    prompt.messages.push_back(ReadMessage(reader, (*messages)[i], i));
  }
}

void CheckTool(FieldReader& reader, const Json& tool, const std::string& name) {
  FieldReader fields(tool, name);
  const auto type = fields.String("type");
  if (fields.ok() && (!type || *type != "function")) {
    fields.Fail("type",
                fmt::format("{}.type: got {}, want \"function\", the only kind of tool implemented",
                            name, type ? DescribeJson(Json(*type)) : "nothing"),
                "unsupported_value");
  }
  const Json* function = fields.Object("function");
  if (fields.ok() && function == nullptr) {
    fields.Fail("function",
                name + ".function is missing, want {\"name\": ..., \"parameters\": ...}",
                "missing_field");
  }
  if (fields.ok()) {
    FieldReader inner(*function, name + ".function");
    const auto function_name = inner.String("name");
    if (inner.ok() &&
        (!function_name || function_name->empty() || function_name->size() > kMaxToolNameBytes)) {
      inner.Fail(
          "name",
          fmt::format("{}.function.name is missing or over {} bytes", name, kMaxToolNameBytes),
          "missing_field");
    }
    inner.String("description");
    inner.Object("parameters");
    inner.Bool("strict");
    if (!inner.ok()) fields.Fail(inner.error());
  }
  if (!fields.ok()) reader.Fail(fields.error());
}

void ReadTools(FieldReader& reader, ChatPrompt& prompt) {
  if (const Json* tools = reader.Array("tools")) {
    for (size_t i = 0; i < tools->size() && reader.ok(); ++i) {
      CheckTool(reader, (*tools)[i], fmt::format("tools[{}]", i));
    }
    prompt.tools = *tools;
  }
  reader.RefuseUnless("parallel_tool_calls", true);
  const Json* choice = reader.Find("tool_choice");
  if (choice == nullptr) return;
  if (*choice == "none") {
    prompt.tools_in_prompt = false;
  } else if (*choice != "auto") {
    reader.Fail(
        "tool_choice",
        "tool_choice: got " + DescribeJson(*choice) +
            "; quern implements \"auto\" and \"none\", not yet \"required\" or a named function",
        "unsupported_value");
  }
}

void ReadTemplateVariables(FieldReader& reader, ChatPrompt& prompt) {
  if (const Json* kwargs = reader.Object("chat_template_kwargs")) {
    for (const char* name : {"messages", "tools", "add_generation_prompt"}) {
      if (kwargs->contains(name)) {
        const std::string path = std::string("chat_template_kwargs.") + name;
        reader.Fail(path, path + " is set by the server; use the request's own field",
                    "invalid_value");
      }
    }
    prompt.kwargs = *kwargs;
  }
  if (const auto effort = reader.String("reasoning_effort")) {
    if (!prompt.kwargs.contains("reasoning_effort")) prompt.kwargs["reasoning_effort"] = *effort;
    // "none" asks for an answer without thinking; templates know that by another name.
    if (*effort == "none" && !prompt.kwargs.contains("enable_thinking"))
      prompt.kwargs["enable_thinking"] = false;
  }
}

// How the prompt ends: an answer to begin, one to go on with, or neither.
void ReadPromptEnd(FieldReader& reader, ChatPrompt& prompt) {
  const auto generate = reader.Bool("add_generation_prompt");
  const auto go_on = reader.Bool("continue_final_message");
  if (!reader.ok()) return;
  const Json& last = prompt.messages.back();
  const bool last_is_assistant = last["role"] == "assistant";
  if (go_on.value_or(false) && generate.value_or(false)) {
    reader.Fail("continue_final_message",
                "continue_final_message and add_generation_prompt cannot both be true");
    return;
  }
  if (go_on.value_or(false) && !last_is_assistant) {
    reader.Fail(
        "continue_final_message",
        "continue_final_message: the last message must be the assistant's, to be continued");
    return;
  }
  prompt.continue_final_message = go_on.value_or(last_is_assistant && !generate.has_value());
  prompt.add_generation_prompt = !prompt.continue_final_message && generate.value_or(true);
  if (prompt.continue_final_message && last.contains("tool_calls")) {
    reader.Fail(
        "messages",
        fmt::format("messages[{}]: the last message has tool_calls; send their results as tool "
                    "messages after it",
                    prompt.messages.size() - 1),
        "invalid_value");
  }
}

}  // namespace

ChatPrompt ReadChatPrompt(FieldReader& reader) {
  ChatPrompt prompt;
  ReadMessages(reader, prompt);
  ReadTools(reader, prompt);
  ReadTemplateVariables(reader, prompt);
  ReadPromptEnd(reader, prompt);
  return prompt;
}

}  // namespace quern::server
