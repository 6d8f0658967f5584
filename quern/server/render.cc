#include "quern/server/render.h"

#include "quern/server/services.h"

namespace quern::server {
namespace {

constexpr std::string_view kThink = "<think>";
constexpr std::string_view kEndThink = "</think>";
constexpr std::string_view kToolCall = "<tool_call>";
constexpr std::string_view kEndToolCall = "</tool_call>";

// Position of the last `open` with no `close` after it; npos when everything is closed.
size_t FindUnclosed(std::string_view text, std::string_view open, std::string_view close) {
  const size_t begin = text.rfind(open);
  if (begin == std::string_view::npos) return begin;
  return text.find(close, begin) == std::string_view::npos ? begin : std::string_view::npos;
}

// Appends `mark` where the last message's text ends: its content, or its reasoning when that is all
// it has.
void MarkEnd(Json& message, const std::string& mark) {
  Json& content = message["content"];
  const bool has_content =
      (content.is_string() || content.is_array()) && !content.empty() && content != "";
  if (!has_content && message.contains("reasoning_content") && message["reasoning_content"] != "") {
    message["reasoning_content"] = message["reasoning_content"].get<std::string>() + mark;
    return;
  }
  if (content.is_array()) {
    content.push_back({{"type", "text"}, {"text", mark}});
    return;
  }
  content = (content.is_string() ? content.get<std::string>() : std::string()) + mark;
}

}  // namespace

ApiResult<RenderedPrompt> RenderChat(const text::ChatTemplate* chat_template,
                                     const ChatPrompt& prompt) {
  if (chat_template == nullptr) {
    return BadField("messages",
                    "this model's checkpoint has no chat template; use /v1/completions, or add "
                    "chat_template.jinja "
                    "to its directory",
                    "no_chat_template");
  }
  Json context = prompt.kwargs;
  context["messages"] = prompt.messages;
  if (!prompt.tools.empty() && prompt.tools_in_prompt) context["tools"] = prompt.tools;
  context["add_generation_prompt"] = prompt.add_generation_prompt;

  // Templates close the last message, strip it, or write it in their own way, so its end is found
  // by a mark no one else knows, and the prompt is cut there.
  std::string mark;
  if (prompt.continue_final_message) {
    mark = RandomId("(continue-") + ")";
    MarkEnd(context["messages"].back(), mark);
  }
  Result<std::string> rendered = chat_template->Render(context);
  if (!rendered.ok()) return FromStatus(rendered.status(), "messages");

  RenderedPrompt out;
  out.text = std::move(*rendered);
  if (!prompt.continue_final_message) {
    out.starts_in_reasoning = std::string_view(out.text).ends_with(kThink);
    return out;
  }
  const size_t end = out.text.rfind(mark);
  if (end == std::string::npos) {
    return BadField(
        "messages",
        fmt::format(
            "messages[{}]: the chat template does not show this message's text, so it cannot be "
            "continued",
            prompt.messages.size() - 1),
        "invalid_value");
  }
  out.text.resize(end);
  out.starts_in_reasoning = FindUnclosed(out.text, kThink, kEndThink) != std::string::npos;
  const Json& last = prompt.messages.back()["content"];
  if (last.is_string() && !out.starts_in_reasoning) {
    const std::string& content = last.get_ref<const std::string&>();
    const size_t call = FindUnclosed(content, kToolCall, kEndToolCall);
    if (call != std::string::npos) out.open_tool_call = content.substr(call);
  }
  return out;
}

ApiResult<std::vector<int32_t>> EncodePrompt(const text::Tokenizer& tokenizer,
                                             std::string_view text, bool add_special_tokens,
                                             const std::string& param) {
  Result<std::vector<int32_t>> ids = tokenizer.Encode(text, add_special_tokens);
  if (!ids.ok()) return FromStatus(ids.status(), param);
  return std::move(*ids);
}

}  // namespace quern::server
