// The names of Boost.Asio this folder uses. Included by .cc files and by headers of http/ only.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>

namespace quern::server {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// Completes with a tuple that begins with the error code; nothing throws.
inline constexpr auto kAwaitTuple = asio::as_tuple(asio::use_awaitable);

// Runs `work` on `pool` and comes back to the awaiting coroutine's executor. `work` must outlive
// the call.
inline asio::awaitable<void> CallWork(const std::function<void()>& work) {
  work();
  co_return;
}
inline asio::awaitable<void> RunOn(asio::thread_pool& pool, const std::function<void()>& work) {
  co_await asio::co_spawn(pool, CallWork(work), asio::use_awaitable);
}

}  // namespace quern::server
