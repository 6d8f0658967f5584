// Runs a generation request: body to engine requests, events to an answer, streamed or whole.
#pragma once

#include "quern/server/answer.h"
#include "quern/server/http/exchange.h"

namespace quern::server {

// Answers one exchange. A peer that goes away, or a stopping server, cancels the engine's work at
// once. Returns the HTTP status that was sent; 499 when the peer went away before any.
asio::awaitable<int> AnswerGeneration(Services& services, asio::thread_pool& work_pool,
                                      Exchange& exchange, PrepareAnswer prepare);

}  // namespace quern::server
