// One client connection: reads requests within limits and times, keeps alive, answers through a
// handler.
#pragma once

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <string>

#include "quern/server/http/exchange.h"
#include "quern/server/server.h"

namespace quern::server {

// Owns the socket; lives in its own coroutine. Everything runs on the socket's executor, a strand;
// Drain and Abort may be called from any thread and are carried there.
class Connection : public std::enable_shared_from_this<Connection>, private Exchange {
 public:
  // `options` and `handler` must outlive it.
  Connection(tcp::socket socket, const ServerOptions& options, ExchangeHandler& handler);

  // Serves until the peer or a limit ends it. Never throws.
  asio::awaitable<void> Run();
  // Answers 503 and closes: the server has connections enough.
  asio::awaitable<void> Reject();

  // Ends when the request being answered is done; at once when there is none.
  void Drain();
  // Interrupts the answer in progress (kServerStops).
  void Abort();
  // Closes the socket whatever is going on.
  void Close();

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  enum class Next { kKeepAlive, kClose };

  asio::awaitable<bool> AwaitFirstByte(bool is_first_request);
  asio::awaitable<Next> ServeOne();
  asio::awaitable<Next> RefuseBroken(error_code error);
  asio::awaitable<bool> ReadBody(Parser& parser);
  asio::awaitable<void> Respond();
  asio::awaitable<bool> SendAll(std::string_view data);
  asio::awaitable<void> Linger();
  void TakeHead(const Parser& parser);
  void WatchSocket();
  void OnReadable(uint64_t watch);
  void Interrupt(Interruption why);

  // Cancels the socket's operations after `limit`; timed_out_ tells why they ended.
  void Arm(std::chrono::milliseconds limit);
  void Disarm();

  // Exchange.
  const HttpRequest& request() const override { return request_; }
  asio::any_io_executor executor() const override { return executor_; }
  asio::awaitable<bool> Send(HttpResponse response) override;
  asio::awaitable<bool> Begin(HttpResponse head) override;
  asio::awaitable<bool> Write(std::string_view data) override;
  asio::awaitable<bool> End() override;
  bool has_begun() const override { return has_begun_; }
  void CloseAfterwards() override { keep_alive_ = false; }
  void Watch(std::function<void(Interruption)> interrupted) override;

  tcp::socket socket_;
  asio::any_io_executor executor_;
  const ServerOptions& options_;
  ExchangeHandler& handler_;
  asio::steady_timer timer_;
  uint64_t timer_round_ = 0;
  bool timed_out_ = false;

  boost::beast::flat_buffer buffer_;  // bytes read but not yet parsed, e.g. of pipelined requests
  HttpRequest request_;
  bool is_http10_ = false;
  bool keep_alive_ = true;
  bool has_begun_ = false;
  bool chunked_ = false;
  bool broken_ = false;  // a write failed

  bool busy_ = false;  // between a request's first byte and its answer's last
  bool draining_ = false;
  bool aborted_ = false;
  std::function<void(Interruption)> interrupted_;
  uint64_t watch_round_ = 0;
};

}  // namespace quern::server
