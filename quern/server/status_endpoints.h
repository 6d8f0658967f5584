// GET /health, /ready, /version and /metrics: for operators and their tools.
#pragma once

#include "quern/server/http/message.h"
#include "quern/server/services.h"

namespace quern::server {

// 200 while the process can answer at all.
HttpResponse GetHealth(Services& services, const HttpRequest& request);
// 200 while requests are taken; 503 once the server is stopping.
HttpResponse GetReady(Services& services, const HttpRequest& request);
HttpResponse GetVersion(Services& services, const HttpRequest& request);
HttpResponse GetMetrics(Services& services, const HttpRequest& request);

}  // namespace quern::server
