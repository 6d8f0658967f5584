// Server-sent events, as the OpenAI API uses them: unnamed events whose data is one JSON object.
#pragma once

#include <string>

#include "quern/base/json.h"

namespace quern::server {

inline constexpr char kSseContentType[] = "text/event-stream; charset=utf-8";
inline constexpr char kSseDone[] = "data: [DONE]\n\n";

inline void AppendSse(const Json& json, std::string& out) {
  out += "data: ";
  out += DumpJson(json);  // never holds a line break
  out += "\n\n";
}

}  // namespace quern::server
