// From an HTTP exchange to an endpoint: routes, API key, CORS, request metrics.
#pragma once

#include "quern/server/http/exchange.h"
#include "quern/server/routes.h"
#include "quern/server/services.h"

namespace quern::server {

// Thread-safe. `services` and `work_pool` must outlive it.
class Dispatcher : public ExchangeHandler {
 public:
  Dispatcher(Services& services, asio::thread_pool& work_pool)
      : services_(services), work_pool_(work_pool) {}

  std::optional<HttpResponse> CheckHead(const HttpRequest& head) override;
  asio::awaitable<void> Handle(Exchange& exchange) override;
  void Answered(const HttpRequest& request, int status) override;

 private:
  bool KeyIsRight(const HttpRequest& head) const;

  Services& services_;
  asio::thread_pool& work_pool_;
};

// Equal? In time that depends on the length of `given` only.
bool ConstantTimeEquals(std::string_view given, std::string_view secret);

// The CORS headers for a request from `origin`; none when it may not call, or none are configured.
HeaderList CorsHeaders(const ServerOptions& options, const std::string& origin);

}  // namespace quern::server
