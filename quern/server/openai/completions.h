// POST /v1/completions.
#pragma once

#include "quern/server/answer.h"

namespace quern::server {

// OpenAI's default for this endpoint; chat answers may use the whole context instead.
inline constexpr int32_t kDefaultCompletionTokens = 16;

ApiResult<PreparedAnswer> PrepareCompletion(Services& services, std::string_view body);

}  // namespace quern::server
