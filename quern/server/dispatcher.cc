#include "quern/server/dispatcher.h"

#include <algorithm>

#include "quern/server/generation.h"

namespace quern::server {
namespace {

ApiError ErrorOf(int status, const char* code, std::string message) {
  ApiError error;
  error.http_status = status;
  error.code = code;
  error.message = std::move(message);
  return error;
}

std::string Shown(std::string_view text) { return std::string(text.substr(0, 100)); }

// What a browser sends for any page without asking this server first. With an Origin it is another
// site's form or script at work; programs have no Origin, and may leave the type at their tool's
// default.
bool IsForeignForm(const HttpRequest& head) {
  if (head.origin.empty()) return false;
  for (const char* type :
       {"text/plain", "application/x-www-form-urlencoded", "multipart/form-data"}) {
    if (head.content_type.starts_with(type)) return true;
  }
  return false;
}

// An exchange whose answers carry CORS headers.
class CorsExchange : public Exchange {
 public:
  CorsExchange(Exchange& inner, const HeaderList& headers) : inner_(inner), headers_(headers) {}
  const HttpRequest& request() const override { return inner_.request(); }
  asio::any_io_executor executor() const override { return inner_.executor(); }
  asio::awaitable<bool> Send(HttpResponse response) override {
    return inner_.Send(WithHeaders(std::move(response)));
  }
  asio::awaitable<bool> Begin(HttpResponse head) override {
    return inner_.Begin(WithHeaders(std::move(head)));
  }
  asio::awaitable<bool> Write(std::string_view data) override { return inner_.Write(data); }
  asio::awaitable<bool> End() override { return inner_.End(); }
  bool has_begun() const override { return inner_.has_begun(); }
  void CloseAfterwards() override { inner_.CloseAfterwards(); }
  void Watch(std::function<void(Interruption)> interrupted) override {
    inner_.Watch(std::move(interrupted));
  }

 private:
  HttpResponse WithHeaders(HttpResponse response) const {
    response.headers.insert(response.headers.end(), headers_.begin(), headers_.end());
    return response;
  }
  Exchange& inner_;
  const HeaderList& headers_;
};

}  // namespace

bool ConstantTimeEquals(std::string_view given, std::string_view secret) {
  if (secret.empty()) return given.empty();
  unsigned difference = given.size() == secret.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    difference |= static_cast<unsigned char>(given[i]) ^
                  static_cast<unsigned char>(secret[i % secret.size()]);
  }
  return difference == 0;
}

HeaderList CorsHeaders(const ServerOptions& options, const std::string& origin) {
  const std::vector<std::string>& allowed = options.cors_origins;
  if (allowed.empty() || origin.empty()) return {};
  const bool any = std::find(allowed.begin(), allowed.end(), "*") != allowed.end();
  if (!any && std::find(allowed.begin(), allowed.end(), origin) == allowed.end()) return {};
  return {{"Access-Control-Allow-Origin", any ? "*" : origin},
          {"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
          {"Access-Control-Allow-Headers", "*, Authorization"},
          {"Access-Control-Expose-Headers", "X-Request-Id, Retry-After"},
          {"Access-Control-Max-Age", "600"},
          {"Vary", "Origin"}};
}

bool Dispatcher::KeyIsRight(const HttpRequest& head) const {
  constexpr std::string_view kScheme = "bearer ";
  std::string_view given = head.authorization;
  const bool has_scheme =
      given.size() > kScheme.size() &&
      std::equal(kScheme.begin(), kScheme.end(), given.begin(), [](char a, char b) {
        return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b - 'A' + 'a') : b);
      });
  given.remove_prefix(has_scheme ? kScheme.size() : given.size());
  return ConstantTimeEquals(given, services_.options.api_key);
}

std::optional<HttpResponse> Dispatcher::CheckHead(const HttpRequest& head) {
  const std::string allowed = AllowedMethods(head.path);
  std::optional<HttpResponse> response;
  const Route* route = FindRoute(head.method, head.path);
  if (allowed.empty()) {
    response = ErrorResponse(ErrorOf(404, "not_found",
                                     fmt::format("{} {}: no such endpoint; see docs/api.md for "
                                                 "those there are",
                                                 Shown(head.method), Shown(head.path))));
  } else if (head.method == "OPTIONS") {
    response.emplace();
    response->status = 204;
    response->content_type.clear();
    response->headers.emplace_back("Allow", allowed);
  } else if (route == nullptr) {
    response = ErrorResponse(ErrorOf(405, "method_not_allowed",
                                     fmt::format("{} does not take {}, only {}", Shown(head.path),
                                                 Shown(head.method), allowed)));
    response->headers.emplace_back("Allow", allowed);
  } else if (!services_.options.api_key.empty() && !route->is_open && !KeyIsRight(head)) {
    response = ErrorResponse(ErrorOf(
        401, "invalid_api_key",
        head.authorization.empty() ? "no API key; send the header Authorization: Bearer <key>"
                                   : "the API key is not the one this server was started with"));
  } else if (head.method == "POST" && IsForeignForm(head)) {
    response = ErrorResponse(ErrorOf(
        415, "unsupported_media_type",
        "Content-Type is '" + Shown(head.content_type) + "'; browsers must send application/json"));
  } else if (services_.draining && !route->is_open) {
    response = ErrorResponse(FromStatus(Unavailable("the server is shutting down")));
  }
  if (response) {
    const HeaderList cors = CorsHeaders(services_.options, head.origin);
    response->headers.insert(response->headers.end(), cors.begin(), cors.end());
  }
  return response;
}

asio::awaitable<void> Dispatcher::Handle(Exchange& exchange) {
  const HttpRequest& request = exchange.request();
  const Route* route = FindRoute(request.method, request.path);
  const HeaderList cors = CorsHeaders(services_.options, request.origin);
  CorsExchange answering(exchange, cors);
  if (route->generation != nullptr) {
    const int status =
        co_await AnswerGeneration(services_, work_pool_, answering, route->generation);
    Answered(request, status);
    co_return;
  }
  HttpResponse response;
  const std::function<void()> work = [&] { response = route->simple(services_, request); };
  if (route->is_heavy) {
    co_await RunOn(work_pool_, work);
  } else {
    work();
  }
  const int status = response.status;
  co_await answering.Send(std::move(response));
  Answered(request, status);
}

void Dispatcher::Answered(const HttpRequest& request, int status) {
  const Route* route = FindRoute(request.method, request.path);
  services_.metrics.CountRequest(route == nullptr ? "unknown" : route->path, status);
}

}  // namespace quern::server
