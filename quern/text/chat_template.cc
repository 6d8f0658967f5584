#include "quern/text/chat_template.h"

#include "quern/base/file.h"
#include "quern/text/rust_buffer.h"

namespace quern::text {
namespace {

// Deeper than any message a client sends, and within what the template engine's own JSON reader
// takes.
constexpr int kMaxArgumentsDepth = 64;

// OpenAI sends arguments as JSON text; templates iterate over an object.
Status ParseArguments(Json& call, size_t message_index) {
  if (!call.is_object()) return OkStatus();
  Json& function = call.contains("function") ? call["function"] : call;
  if (!function.is_object()) return OkStatus();
  const auto it = function.find("arguments");
  if (it == function.end() || !it->is_string()) return OkStatus();
  const std::string text = it->get<std::string>();
  if (text.empty()) {  // what some clients send for a call without arguments
    *it = Json::object();
    return OkStatus();
  }
  Result<Json> parsed = ParseJson(text, kMaxArgumentsDepth);
  std::string name = "?";
  if (const auto n = function.find("name"); n != function.end() && n->is_string()) name = *n;
  if (!parsed.ok()) {
    return InvalidArgument("messages[{}]: arguments of the call to \"{}\" are not JSON: {}",
                           message_index, name, parsed.status().message());
  }
  if (!parsed->is_object()) {
    return InvalidArgument(
        "messages[{}]: arguments of the call to \"{}\" are a JSON {}; want an object",
        message_index, name, parsed->type_name());
  }
  *it = std::move(*parsed);
  return OkStatus();
}

Status PrepareMessage(Json& message, size_t index) {
  if (!message.is_object()) {
    return InvalidArgument("messages[{}] is a JSON {}; want an object", index, message.type_name());
  }
  if (const auto content = message.find("content");
      content != message.end() && content->is_null()) {
    *content = "";
  }
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return OkStatus();
  for (Json& call : *calls) QUERN_TRY(ParseArguments(call, index));
  return OkStatus();
}

// The special tokens a tokenizer_config.json names, which transformers lets templates print.
Json SpecialTokens(const Json& config) {
  Json tokens = Json::object();
  if (!config.is_object()) return tokens;
  for (const char* name : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                           "cls_token", "mask_token"}) {
    const auto it = config.find(name);
    if (it == config.end()) continue;
    if (it->is_string()) tokens[name] = *it;
    if (it->is_object() && it->contains("content")) tokens[name] = (*it)["content"];
  }
  return tokens;
}

Result<std::string> TemplateFromConfig(const std::string& path) {
  QUERN_ASSIGN(const Json config, ReadJsonFile(path));
  const auto it = config.is_object() ? config.find("chat_template") : config.end();
  if (it != config.end() && it->is_string()) return it->get<std::string>();
  if (it != config.end() && it->is_array()) {
    for (const Json& entry : *it) {
      if (!entry.is_object()) continue;
      const auto name = entry.find("name"), source = entry.find("template");
      if (name == entry.end() || source == entry.end() || !source->is_string()) continue;
      if (*name == "default") return source->get<std::string>();
    }
    return NotFound("{}: chat_template is a list without an entry named \"default\"", path);
  }
  return NotFound("{}: it has no chat_template", path);
}

}  // namespace

struct ChatTemplate::Impl {
  ~Impl() { quern_template_free(handle); }
  QuernTemplate* handle = nullptr;
  Json defaults = Json::object();  // variables a context need not give
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::FromSource(std::string_view source) {
  auto impl = std::make_unique<Impl>();
  RustBuffer error;
  const QuernRustCode code =
      quern_template_new(source.data(), source.size(), &impl->handle, error.out());
  if (code != QUERN_RUST_OK) return RustStatus(code, error).WithContext("chat template");
  return std::unique_ptr<ChatTemplate>(new ChatTemplate(std::move(impl)));
}

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::FromCheckpoint(const std::string& directory) {
  std::string path = directory + "/chat_template.jinja";
  Result<std::string> source = ReadFile(path);
  if (source.status().code() == StatusCode::kNotFound) {
    path = directory + "/tokenizer_config.json";
    source = TemplateFromConfig(path);
  }
  if (source.status().code() == StatusCode::kNotFound) {
    return NotFound(
        "{}: no chat template: there is neither chat_template.jinja nor a "
        "\"chat_template\" in tokenizer_config.json",
        directory);
  }
  if (!source.ok()) return source.status();
  auto compiled = FromSource(*source);
  if (!compiled.ok()) return compiled.status().WithContext(path);
  const std::string config_path = directory + "/tokenizer_config.json";
  const Result<Json> config = ReadJsonFile(config_path);
  if (config.ok()) {
    (*compiled)->impl_->defaults = SpecialTokens(*config);
  } else if (config.status().code() != StatusCode::kNotFound) {
    return config.status();
  }
  return compiled;
}

Result<std::string> ChatTemplate::Render(const Json& context) const {
  if (!context.is_object()) {
    return InvalidArgument("the chat template's context is a JSON {}; want an object",
                           context.type_name());
  }
  Json prepared = context;
  for (const auto& [name, value] : impl_->defaults.items()) {
    if (!prepared.contains(name)) prepared[name] = value;
  }
  if (const auto messages = prepared.find("messages"); messages != prepared.end()) {
    if (!messages->is_array()) {
      return InvalidArgument("messages is a JSON {}; want an array", messages->type_name());
    }
    for (size_t i = 0; i < messages->size(); ++i) QUERN_TRY(PrepareMessage((*messages)[i], i));
  }
  const std::string text = DumpJson(prepared);
  RustBuffer out, error;
  const QuernRustCode code =
      quern_template_render(impl_->handle, text.data(), text.size(), out.out(), error.out());
  if (code != QUERN_RUST_OK) return RustStatus(code, error).WithContext("chat template");
  return std::string(out.view());
}

}  // namespace quern::text
