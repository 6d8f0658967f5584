#include "quern/server/status_endpoints.h"

namespace quern::server {

HttpResponse GetHealth(Services&, const HttpRequest&) { return JsonResponse({{"status", "ok"}}); }

HttpResponse GetReady(Services& services, const HttpRequest&) {
  if (services.draining) return JsonResponse({{"status", "stopping"}}, 503);
  return JsonResponse({{"status", "ready"}});
}

HttpResponse GetVersion(Services&, const HttpRequest&) {
  return JsonResponse({{"version", Version()}});
}

HttpResponse GetMetrics(Services& services, const HttpRequest&) {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = services.metrics.Text();
  return response;
}

}  // namespace quern::server
