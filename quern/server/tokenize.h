// POST /tokenize and /detokenize, in the shapes vLLM's clients know.
#pragma once

#include "quern/server/http/message.h"
#include "quern/server/services.h"

namespace quern::server {

// {"prompt"} or {"messages", ...} to {"count", "max_model_len", "tokens", "token_strs"}.
HttpResponse Tokenize(Services& services, const HttpRequest& request);
// {"tokens"} to {"prompt"}.
HttpResponse Detokenize(Services& services, const HttpRequest& request);

}  // namespace quern::server
