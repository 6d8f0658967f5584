#include "quern/server/routes.h"

#include "quern/server/openai/chat_completions.h"
#include "quern/server/openai/completions.h"
#include "quern/server/openai/models.h"
#include "quern/server/status_endpoints.h"
#include "quern/server/tokenize.h"
#include "quern/server/web/page.h"

namespace quern::server {
namespace {

// A new endpoint is a row here, a file, and a section of docs/api.md.
constexpr Route kRoutes[] = {
    {.method = "POST", .path = "/v1/chat/completions", .generation = PrepareChatCompletion},
    {.method = "POST", .path = "/v1/completions", .generation = PrepareCompletion},
    {.method = "GET", .path = "/v1/models", .simple = ListModels},
    {.method = "GET", .path = "/v1/models/", .simple = GetModel},
    {.method = "POST", .path = "/tokenize", .simple = Tokenize, .is_heavy = true},
    {.method = "POST", .path = "/detokenize", .simple = Detokenize, .is_heavy = true},
    {.method = "GET", .path = "/health", .simple = GetHealth, .is_open = true},
    {.method = "GET", .path = "/ready", .simple = GetReady, .is_open = true},
    {.method = "GET", .path = "/version", .simple = GetVersion},
    {.method = "GET", .path = "/metrics", .simple = GetMetrics},
    {.method = "GET", .path = "/", .simple = GetPage, .is_open = true},
};

bool Matches(const Route& route, std::string_view path) {
  const std::string_view pattern = route.path;
  if (pattern.size() > 1 && pattern.ends_with('/'))
    return path.starts_with(pattern) && path.size() > pattern.size();
  return path == pattern;
}

}  // namespace

std::span<const Route> Routes() { return kRoutes; }

const Route* FindRoute(std::string_view method, std::string_view path) {
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  for (const Route& route : kRoutes) {
    if (wanted == route.method && Matches(route, path)) return &route;
  }
  return nullptr;
}

std::string AllowedMethods(std::string_view path) {
  std::string methods;
  for (const Route& route : kRoutes) {
    if (!Matches(route, path)) continue;
    methods += std::string(route.method) + ", ";
    if (std::string_view(route.method) == "GET") methods += "HEAD, ";
  }
  return methods.empty() ? methods : methods + "OPTIONS";
}

}  // namespace quern::server
