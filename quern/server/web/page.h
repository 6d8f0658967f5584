// GET /: a small chat page, one self-contained file (web/chat.html) built into the program.
#pragma once

#include "quern/server/http/message.h"
#include "quern/server/services.h"

namespace quern::server {

HttpResponse GetPage(Services& services, const HttpRequest& request);

}  // namespace quern::server
