// The messages of a chat request: checked, and brought to the one form the chat template is given.
#pragma once

#include "quern/base/json.h"
#include "quern/server/field_reader.h"

namespace quern::server {

// The fields that decide the rendered prompt; chat completions and /tokenize share them.
struct ChatPrompt {
  // Roles are system, user, assistant or tool ("developer" has become "system"); null fields are
  // gone; every message has "content" (null only beside tool_calls or reasoning_content);
  // "reasoning" has become "reasoning_content".
  Json messages = Json::array();
  Json tools = Json::array();    // OpenAI tool objects, type "function"
  bool tools_in_prompt = true;   // false for tool_choice "none"
  Json kwargs = Json::object();  // template variables: chat_template_kwargs, reasoning_effort
  bool add_generation_prompt = true;
  bool continue_final_message =
      false;  // the answer goes on where the last (assistant) message ends
};

// Reads messages, tools, tool_choice, parallel_tool_calls, chat_template_kwargs, reasoning_effort,
// add_generation_prompt and continue_final_message. Errors stay in `reader`.
ChatPrompt ReadChatPrompt(FieldReader& reader);

}  // namespace quern::server
