#include "quern/server/http/connection.h"

#include <boost/asio/read.hpp>
#include <boost/beast/http/read.hpp>

#include "quern/base/log.h"

namespace quern::server {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;

constexpr size_t kMaxPipelinedBytes = 64 << 10;  // read ahead while watching for the peer's end
constexpr std::chrono::seconds kLinger{2};       // how long a refused body may go on arriving
constexpr size_t kReadBytes = 8 << 10;

std::string Field(const http::fields& fields, http::field name) {
  return std::string(fields[name]);
}

ApiError ErrorOf(int status, std::string code, std::string message) {
  ApiError error;
  error.http_status = status;
  error.code = std::move(code);
  error.message = std::move(message);
  return error;
}

}  // namespace

Connection::Connection(tcp::socket socket, const ServerOptions& options, ExchangeHandler& handler)
    : socket_(std::move(socket)),
      executor_(socket_.get_executor()),
      options_(options),
      handler_(handler),
      timer_(executor_),
      buffer_(std::max<size_t>(options.max_header_bytes, kMaxPipelinedBytes) + (64 << 10)) {}

asio::awaitable<void> Connection::Run() {
  error_code ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);  // for the reads that watch for the peer's end
  try {
    bool is_first = true;
    while (!draining_) {
      const bool has_bytes = co_await AwaitFirstByte(is_first);
      if (!has_bytes) break;
      is_first = false;
      busy_ = true;
      const Next next = co_await ServeOne();
      busy_ = false;
      if (next == Next::kClose) break;
    }
  } catch (const std::exception& e) {
    log::error("connection closed by an unexpected error: {}", e.what());
  }
  interrupted_ = nullptr;
  Disarm();
  socket_.close(ignored);
}

asio::awaitable<void> Connection::Reject() {
  ApiError error =
      ErrorOf(503, "too_many_connections", "the server has as many connections as it allows");
  error.type = "server_error";
  error.retry_after_s = 1;
  CloseAfterwards();
  HttpResponse response = ErrorResponse(error);
  co_await Send(std::move(response));
  co_await Linger();
  error_code ignored;
  socket_.close(ignored);
}

void Connection::Drain() {
  asio::post(executor_, [self = shared_from_this()] {
    self->draining_ = true;
    error_code ignored;
    if (!self->busy_) self->socket_.cancel(ignored);
  });
}

void Connection::Abort() {
  asio::post(executor_, [self = shared_from_this()] {
    self->aborted_ = true;
    if (self->interrupted_) {
      log::warn("{} {} is cancelled: the grace time is over", self->request_.method,
                self->request_.path);
    }
    self->Interrupt(Interruption::kServerStops);
  });
}

void Connection::Close() {
  asio::post(executor_, [self = shared_from_this()] {
    error_code ignored;
    self->socket_.close(ignored);
  });
}

// Waits for a request to begin. The first one must come within the header time, later ones within
// the idle time.
asio::awaitable<bool> Connection::AwaitFirstByte(bool is_first_request) {
  if (buffer_.size() > 0) co_return true;
  Arm(is_first_request ? options_.header_timeout : options_.idle_timeout);
  auto [error, bytes] = co_await socket_.async_read_some(buffer_.prepare(kReadBytes), kAwaitTuple);
  Disarm();
  buffer_.commit(bytes);
  co_return !error && bytes > 0;
}

asio::awaitable<Connection::Next> Connection::ServeOne() {
  request_ = {};
  has_begun_ = chunked_ = false;
  keep_alive_ = true;
  Parser parser;
  parser.header_limit(options_.max_header_bytes);
  parser.body_limit(options_.max_body_bytes);

  Arm(options_.header_timeout);
  auto [error, bytes] = co_await http::async_read_header(socket_, buffer_, parser, kAwaitTuple);
  Disarm();
  static_cast<void>(bytes);
  TakeHead(parser);
  if (error) {
    const Next next = co_await RefuseBroken(error);
    co_return next;
  }
  keep_alive_ = parser.get().keep_alive();
  is_http10_ = parser.get().version() < 11;
  if (parser.get().count(http::field::transfer_encoding) > 0 &&
      parser.get().count(http::field::content_length) > 0) {
    // Two lengths: peers that believe different ones would see different requests.
    const Next next = co_await RefuseBroken(http::error::bad_transfer_encoding);
    co_return next;
  }

  if (std::optional<HttpResponse> early = handler_.CheckHead(request_)) {
    const bool has_body = !parser.is_done();
    if (has_body) keep_alive_ = false;  // rather than read what was refused
    const int status = early->status;
    co_await Send(std::move(*early));
    handler_.Answered(request_, status);
    if (has_body) co_await Linger();
    co_return keep_alive_ && !broken_ ? Next::kKeepAlive : Next::kClose;
  }
  const bool has_body = co_await ReadBody(parser);
  if (!has_body) co_return Next::kClose;
  request_.body = std::move(parser.get().body());
  co_await Respond();
  co_return keep_alive_ && !broken_ && !draining_ ? Next::kKeepAlive : Next::kClose;
}

void Connection::TakeHead(const Parser& parser) {
  const auto& head = parser.get();
  const std::string target(head.target());
  const size_t question = target.find('?');
  request_.method = std::string(head.method_string());
  request_.path = PercentDecode(target.substr(0, question));
  request_.query = question == std::string::npos ? "" : target.substr(question + 1);
  request_.authorization = Field(head, http::field::authorization);
  request_.origin = Field(head, http::field::origin);
  request_.content_type = Field(head, http::field::content_type);
  request_.host = Field(head, http::field::host);
}

// Answers what could not be read as a request, if there is anyone to answer.
asio::awaitable<Connection::Next> Connection::RefuseBroken(error_code error) {
  keep_alive_ = false;
  ApiError answer;
  if (timed_out_) {
    answer = ErrorOf(408, "request_timeout", "the request did not arrive in time");
  } else if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    answer = ErrorOf(
        431, "headers_too_large",
        fmt::format("the request line and headers are over {} bytes", options_.max_header_bytes));
  } else if (error == http::error::body_limit) {
    answer =
        ErrorOf(413, "body_too_large",
                fmt::format("the body is over the limit of {} bytes", options_.max_body_bytes));
  } else if (error == http::error::end_of_stream || error == http::error::partial_message ||
             error.category() != make_error_code(http::error::bad_value).category()) {
    co_return Next::kClose;  // the peer is gone
  } else {
    answer =
        ErrorOf(400, "bad_http", "this is not an HTTP request quern can read: " + error.message());
  }
  HttpResponse response = ErrorResponse(answer);
  co_await Send(std::move(response));
  handler_.Answered(request_, answer.http_status);
  co_await Linger();
  co_return Next::kClose;
}

// False when it did not come; an answer was then given.
asio::awaitable<bool> Connection::ReadBody(Parser& parser) {
  if (parser.is_done()) co_return true;
  if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
    const bool sent = co_await SendAll("HTTP/1.1 100 Continue\r\n\r\n");
    if (!sent) co_return false;
  }
  Arm(options_.body_timeout);
  auto [error, bytes] = co_await http::async_read(socket_, buffer_, parser, kAwaitTuple);
  Disarm();
  static_cast<void>(bytes);
  if (!error) co_return true;
  co_await RefuseBroken(error);
  co_return false;
}

asio::awaitable<void> Connection::Respond() {
  std::string failure;
  try {
    co_await handler_.Handle(*this);
  } catch (const std::exception& e) {
    failure = e.what();
  }
  Watch(nullptr);
  if (failure.empty()) co_return;
  log::error("{} {} failed: {}", request_.method, request_.path, failure);
  keep_alive_ = false;
  if (has_begun_) co_return;
  HttpResponse response =
      ErrorResponse(FromStatus(Internal("an unexpected error; the server's log has more")));
  co_await Send(std::move(response));
  handler_.Answered(request_, 500);
}

asio::awaitable<bool> Connection::Send(HttpResponse response) {
  has_begun_ = true;
  keep_alive_ = keep_alive_ && !draining_;
  std::string message = FormatHead(response, Framing::kLength, keep_alive_);
  if (request_.method != "HEAD") message += response.body;
  const bool sent = co_await SendAll(message);
  co_return sent;
}

asio::awaitable<bool> Connection::Begin(HttpResponse head) {
  has_begun_ = true;
  // HTTP/1.0 knows no chunks: its body ends with the connection.
  chunked_ = !is_http10_;
  keep_alive_ = keep_alive_ && chunked_ && !draining_;
  const std::string message =
      FormatHead(head, chunked_ ? Framing::kChunked : Framing::kUntilClose, keep_alive_);
  const bool sent = co_await SendAll(message);
  co_return sent;
}

asio::awaitable<bool> Connection::Write(std::string_view data) {
  const std::string chunk = chunked_ ? FormatChunk(data) : std::string(data);
  const bool sent = co_await SendAll(chunk);
  co_return sent;
}

asio::awaitable<bool> Connection::End() {
  const std::string_view end = chunked_ ? "0\r\n\r\n" : "";
  const bool sent = co_await SendAll(end);
  co_return sent;
}

// Writes all of it. The time limit is for each step the peer takes, so long answers may take long.
asio::awaitable<bool> Connection::SendAll(std::string_view data) {
  while (!data.empty() && !broken_) {
    Arm(options_.write_timeout);
    auto [error, bytes] =
        co_await socket_.async_write_some(asio::buffer(data.data(), data.size()), kAwaitTuple);
    Disarm();
    data.remove_prefix(bytes);
    broken_ = static_cast<bool>(error);
  }
  co_return !broken_;
}

// Closing with unread bytes resets the connection, and the peer may lose the answer. So: say that
// nothing more comes, and take what still arrives for a moment.
asio::awaitable<void> Connection::Linger() {
  error_code error;
  socket_.shutdown(tcp::socket::shutdown_send, error);
  buffer_.clear();
  Arm(kLinger);
  while (!error) {
    auto [read_error, bytes] =
        co_await socket_.async_read_some(buffer_.prepare(kReadBytes), kAwaitTuple);
    static_cast<void>(bytes);  // prepared space is reused, as nothing is committed
    error = read_error;
  }
  Disarm();
}

void Connection::Watch(std::function<void(Interruption)> interrupted) {
  ++watch_round_;
  interrupted_ = std::move(interrupted);
  if (!interrupted_) return;
  if (aborted_) {
    Interrupt(Interruption::kServerStops);
    return;
  }
  WatchSocket();
}

void Connection::WatchSocket() {
  socket_.async_wait(tcp::socket::wait_read,
                     [self = shared_from_this(), round = watch_round_](error_code error) {
                       if (!error) self->OnReadable(round);
                     });
}

// Something came while an answer is being made: the peer's end, or the next request already.
void Connection::OnReadable(uint64_t watch) {
  if (watch != watch_round_ || !interrupted_) return;
  error_code error;
  const size_t bytes = socket_.read_some(buffer_.prepare(kReadBytes), error);
  if (!error) {
    buffer_.commit(bytes);
    if (buffer_.size() < kMaxPipelinedBytes) WatchSocket();
  } else if (error == asio::error::would_block || error == asio::error::try_again) {
    WatchSocket();
  } else {
    broken_ = true;
    Interrupt(Interruption::kPeerClosed);
  }
}

void Connection::Interrupt(Interruption why) {
  if (!interrupted_) return;
  const std::function<void(Interruption)> call = std::exchange(interrupted_, nullptr);
  ++watch_round_;
  call(why);
}

void Connection::Arm(std::chrono::milliseconds limit) {
  timed_out_ = false;
  timer_.expires_after(limit);
  timer_.async_wait([self = shared_from_this(), round = ++timer_round_](error_code error) {
    if (error || round != self->timer_round_) return;
    self->timed_out_ = true;
    error_code ignored;
    self->socket_.cancel(ignored);
  });
}

void Connection::Disarm() {
  ++timer_round_;
  timer_.cancel();
}

}  // namespace quern::server
