// The checkpoint's chat_template.jinja, rendered by the `minijinja` crate with the functions
// Hugging Face offers.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "quern/base/json.h"
#include "quern/base/status.h"

namespace quern::text {

// Immutable and thread-safe after creation.
class ChatTemplate {
 public:
  // Compiles Jinja source (trim_blocks and lstrip_blocks on, as transformers does). The error names
  // the line.
  static Result<std::unique_ptr<ChatTemplate>> FromSource(std::string_view source);
  // chat_template.jinja in `directory`, else "chat_template" in its tokenizer_config.json (a
  // string, or a list of {name, template} whose "default" is taken). kNotFound when there is
  // neither.
  static Result<std::unique_ptr<ChatTemplate>> FromCheckpoint(const std::string& directory);
  ~ChatTemplate();

  // `context` holds messages, tools (optional), add_generation_prompt and any template kwargs.
  // Before rendering, OpenAI's forms are brought to what templates want: a JSON string in
  // tool_calls[].function.arguments becomes the object it encodes (kInvalidArgument naming the
  // message when it is not one), null content becomes "". raise_exception() in the template is
  // kInvalidArgument with its text.
  Result<std::string> Render(const Json& context) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern::text
