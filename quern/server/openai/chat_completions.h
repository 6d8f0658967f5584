// POST /v1/chat/completions.
#pragma once

#include "quern/server/answer.h"

namespace quern::server {

ApiResult<PreparedAnswer> PrepareChatCompletion(Services& services, std::string_view body);

}  // namespace quern::server
