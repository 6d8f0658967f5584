#include "quern/server/server.h"

#include <sys/socket.h>

#include <algorithm>
#include <list>
#include <mutex>
#include <thread>

#include "quern/base/log.h"
#include "quern/server/dispatcher.h"
#include "quern/server/http/connection.h"
#include "quern/server/services.h"

namespace quern::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kAcceptPause{100};  // when there are no file descriptors left
// Between telling requests that the server stops and closing their sockets.
constexpr std::chrono::milliseconds kAbortTime{1000};
constexpr std::chrono::hours kLongestGrace{24};

Status CheckOptions(const ServerOptions& options) {
  if (options.max_body_bytes == 0 || options.max_header_bytes < 256 ||
      options.max_connections < 1) {
    return InvalidArgument(
        "server limits: body {} bytes, headers {} bytes, {} connections; want at least 1, 256 and "
        "1",
        options.max_body_bytes, options.max_header_bytes, options.max_connections);
  }
  if (options.num_io_threads < 1 || options.num_work_threads < 1) {
    return InvalidArgument("server threads: {} I/O, {} work; want at least 1 each",
                           options.num_io_threads, options.num_work_threads);
  }
  for (const auto limit : {options.header_timeout, options.body_timeout, options.idle_timeout,
                           options.write_timeout}) {
    if (limit.count() <= 0)
      return InvalidArgument("server timeouts: got {} ms, want more than 0", limit.count());
  }
  return OkStatus();
}

}  // namespace

struct Server::Impl {
  Impl(ServerOptions options, engine::Engine& engine, const text::Tokenizer& tokenizer,
       const text::ChatTemplate* chat_template, ModelInfo model)
      : services(std::move(options), engine, tokenizer, chat_template, std::move(model)),
        work_pool(static_cast<size_t>(services.options.num_work_threads)),
        dispatcher(services, work_pool),
        control(asio::make_strand(io)),
        acceptor(control),
        stop_timer(control),
        pause_timer(control) {}

  Status Listen();
  asio::awaitable<void> Accept();
  void Serve(tcp::socket socket);
  void BeginStop(Clock::duration grace);
  void EndGrace();
  void CloseAll();
  void Forget(std::list<std::shared_ptr<Connection>>::iterator where);
  std::vector<std::shared_ptr<Connection>> Connections();

  Services services;
  asio::thread_pool work_pool;
  Dispatcher dispatcher;
  asio::io_context io;
  asio::strand<asio::io_context::executor_type> control;  // accepting and stopping
  tcp::acceptor acceptor;
  asio::steady_timer stop_timer, pause_timer;
  uint16_t bound_port = 0;
  std::optional<Clock::time_point> stop_at;

  std::mutex mutex;  // connections
  std::list<std::shared_ptr<Connection>> connections;
};

Status Server::Impl::Listen() {
  const ServerOptions& o = services.options;
  error_code error;
  tcp::resolver resolver(io);
  const auto found =
      resolver.resolve(o.host, std::to_string(o.port),
                       tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error || found.empty()) {
    return InvalidArgument("host '{}' cannot be resolved: {}; use an address such as 127.0.0.1",
                           o.host, error.message());
  }
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(SOMAXCONN, error);
  if (error) {
    return Unavailable("cannot listen on {} port {}: {}; choose another with --port", o.host,
                       o.port, error.message());
  }
  bound_port = acceptor.local_endpoint(error).port();
  return OkStatus();
}

asio::awaitable<void> Server::Impl::Accept() {
  while (acceptor.is_open()) {
    auto [error, socket] = co_await acceptor.async_accept(asio::make_strand(io), kAwaitTuple);
    if (!error) {
      Serve(std::move(socket));
    } else if (acceptor.is_open() && error != asio::error::operation_aborted) {
      log::warn("cannot accept a connection: {}", error.message());
      pause_timer.expires_after(kAcceptPause);
      co_await pause_timer.async_wait(kAwaitTuple);
    }
  }
}

void Server::Impl::Serve(tcp::socket socket) {
  const auto executor = socket.get_executor();
  auto connection = std::make_shared<Connection>(std::move(socket), services.options, dispatcher);
  std::unique_lock lock(mutex);
  const bool is_full = connections.size() >= static_cast<size_t>(services.options.max_connections);
  const auto where = connections.insert(connections.end(), connection);
  lock.unlock();
  services.metrics.ConnectionOpened();
  asio::co_spawn(executor, is_full ? connection->Reject() : connection->Run(),
                 [this, where](std::exception_ptr) { Forget(where); });
}

void Server::Impl::Forget(std::list<std::shared_ptr<Connection>>::iterator where) {
  std::unique_lock lock(mutex);
  connections.erase(where);
  const bool none_left = connections.empty();
  lock.unlock();
  services.metrics.ConnectionClosed();
  if (none_left && services.draining) {
    asio::post(control, [this] { stop_timer.cancel(); });  // nothing to wait for
  }
}

std::vector<std::shared_ptr<Connection>> Server::Impl::Connections() {
  std::lock_guard lock(mutex);
  return {connections.begin(), connections.end()};
}

// On `control`. Called again, it can only bring the end nearer.
void Server::Impl::BeginStop(Clock::duration grace) {
  const Clock::time_point at = Clock::now() + grace;
  if (stop_at && *stop_at <= at) return;
  stop_at = at;
  error_code ignored;
  acceptor.close(ignored);
  pause_timer.cancel();
  const auto open = Connections();
  for (const auto& connection : open) connection->Drain();
  if (open.empty()) return;
  stop_timer.expires_at(at);
  stop_timer.async_wait([this](error_code error) {
    if (!error) EndGrace();
  });
}

void Server::Impl::EndGrace() {
  const auto open = Connections();
  if (open.empty()) return;
  for (const auto& connection : open) connection->Abort();
  stop_timer.expires_after(kAbortTime);
  stop_timer.async_wait([this](error_code error) {
    if (!error) CloseAll();
  });
}

void Server::Impl::CloseAll() {
  for (const auto& connection : Connections()) connection->Close();
}

Result<std::unique_ptr<Server>> Server::Create(ServerOptions options, engine::Engine& engine,
                                               const text::Tokenizer& tokenizer,
                                               const text::ChatTemplate* chat_template,
                                               ModelInfo model) {
  QUERN_TRY(CheckOptions(options));
  if (options.served_model_names.empty() && model.name.empty()) {
    return InvalidArgument("the model has no name; give one with --served-model-name");
  }
  auto impl = std::make_unique<Impl>(std::move(options), engine, tokenizer, chat_template,
                                     std::move(model));
  QUERN_TRY(impl->Listen());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

uint16_t Server::port() const { return impl_->bound_port; }

void Server::Run() {
  Impl& impl = *impl_;
  asio::co_spawn(impl.control, impl.Accept(), asio::detached);
  std::vector<std::thread> threads;
  for (int i = 1; i < impl.services.options.num_io_threads; ++i) {
    threads.emplace_back([&impl] { impl.io.run(); });
  }
  impl.io.run();  // returns when the acceptor is closed and the last connection has ended
  for (std::thread& thread : threads) thread.join();
  impl.work_pool.join();
}

void Server::Stop(std::chrono::milliseconds grace) {
  grace = std::clamp<std::chrono::milliseconds>(grace, std::chrono::milliseconds(0), kLongestGrace);
  impl_->services.draining = true;
  asio::post(impl_->control, [impl = impl_.get(), grace] { impl->BeginStop(grace); });
}

}  // namespace quern::server
