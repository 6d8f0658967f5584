// One request and the way to answer it; what the connection offers to the rest of the server.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "quern/server/http/asio.h"
#include "quern/server/http/message.h"

namespace quern::server {

// Lives as long as its Handle call. All members belong to the connection's strand.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const HttpRequest& request() const = 0;
  virtual asio::any_io_executor executor() const = 0;

  // The whole answer. HEAD requests get its headers only. False when the peer is gone.
  virtual asio::awaitable<bool> Send(HttpResponse response) = 0;

  // An answer in pieces: Begin with an empty body, Write any number of times, then End. Each waits
  // until the peer has taken it, so a slow reader slows its writer. False when the peer is gone.
  virtual asio::awaitable<bool> Begin(HttpResponse head) = 0;
  virtual asio::awaitable<bool> Write(std::string_view data) = 0;
  virtual asio::awaitable<bool> End() = 0;
  // Something was sent, so another status can no longer be chosen.
  virtual bool has_begun() const = 0;
  // The connection is closed after this answer.
  virtual void CloseAfterwards() = 0;

  // Why to stop working on the answer.
  enum class Interruption { kPeerClosed, kServerStops };
  // Calls `interrupted` (at most once, on the strand) as soon as one is known. Watching ends with
  // the exchange, or when called with nullptr.
  virtual void Watch(std::function<void(Interruption)> interrupted) = 0;
};

// Decides what requests mean. One per server, used by all connections at once.
class ExchangeHandler {
 public:
  virtual ~ExchangeHandler() = default;
  // Judges a request by its headers, before its body is read: an answer ends it there.
  virtual std::optional<HttpResponse> CheckHead(const HttpRequest& head) = 0;
  // Answers. What it throws becomes a 500.
  virtual asio::awaitable<void> Handle(Exchange& exchange) = 0;
  // An answer was sent, here or by the connection itself (431, 408 ...; `request` is then what is
  // known of it).
  virtual void Answered(const HttpRequest& request, int status) = 0;
};

}  // namespace quern::server
