// Every endpoint of the server, in one table.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "quern/server/answer.h"
#include "quern/server/http/message.h"

namespace quern::server {

// Endpoints that need no engine: a request in, a response out.
using SimpleEndpoint = HttpResponse (*)(Services& services, const HttpRequest& request);

struct Route {
  const char* method;
  const char* path;                    // one that ends in '/' stands for everything under it
  SimpleEndpoint simple = nullptr;     // either this
  PrepareAnswer generation = nullptr;  // or this
  bool is_open = false;                // needs no API key
  bool is_heavy = false;               // too slow for an I/O thread: tokenization
};

std::span<const Route> Routes();

// The route for a method and path; null when there is none. HEAD goes to GET's.
const Route* FindRoute(std::string_view method, std::string_view path);
// The methods `path` takes, e.g. "GET, HEAD, OPTIONS"; empty for an unknown path.
std::string AllowedMethods(std::string_view path);

}  // namespace quern::server
