// GET /v1/models and /v1/models/{id}.
#pragma once

#include "quern/server/http/message.h"
#include "quern/server/services.h"

namespace quern::server {

HttpResponse ListModels(Services& services, const HttpRequest& request);
// Names may hold slashes: everything after "/v1/models/" is the name.
HttpResponse GetModel(Services& services, const HttpRequest& request);

}  // namespace quern::server
