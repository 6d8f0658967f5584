// Token events from the engine's thread to one connection's coroutine.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "quern/engine/request.h"
#include "quern/server/http/exchange.h"

namespace quern::server {

struct ChoiceEvent {
  int choice = 0;
  engine::TokenEvent event;
  std::chrono::steady_clock::time_point arrived;
};

// Push from any thread; the rest belongs to the reader's executor (a strand). What piles up while
// the reader writes to a slow peer is taken in one go; it is bounded by the request's max_tokens,
// and the pushing thread never waits. The engine may hold a channel longer than the server lives,
// so Close lets go of everything that is the server's.
class EventChannel : public std::enable_shared_from_this<EventChannel> {
 public:
  explicit EventChannel(asio::any_io_executor executor) : executor_(executor) {
    wake_.emplace(std::move(executor), asio::steady_timer::time_point::max());
  }

  // Nothing happens once closed.
  void Push(int choice, const engine::TokenEvent& event) {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    events_.push_back({choice, event, std::chrono::steady_clock::now()});
    // Posted under the lock, so that Close cannot come between.
    if (std::exchange(waiting_, false))
      asio::post(executor_, [self = shared_from_this()] { self->Wake(); });
  }

  // Makes Next return at once, now and later.
  void Interrupt(Exchange::Interruption why) {
    interruption_ = why;
    Wake();
  }
  std::optional<Exchange::Interruption> interruption() const { return interruption_; }

  // The reader's last call.
  void Close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    waiting_ = false;
    events_.clear();
    wake_.reset();
    executor_ = {};
  }

  // At least one event, or none when interrupted.
  asio::awaitable<std::vector<ChoiceEvent>> Next() {
    while (!interruption_) {
      std::vector<ChoiceEvent> taken;
      {
        std::lock_guard lock(mutex_);
        taken.swap(events_);
        waiting_ = taken.empty();
      }
      if (!taken.empty()) co_return taken;
      // A Push from here on posts its wake-up to this strand, so it cannot come before the wait has
      // begun.
      co_await wake_->async_wait(kAwaitTuple);
    }
    co_return std::vector<ChoiceEvent>();
  }

 private:
  void Wake() {
    if (wake_) wake_->cancel();
  }

  std::mutex mutex_;  // events_, waiting_, closed_, executor_
  std::vector<ChoiceEvent> events_;
  bool waiting_ = false;
  bool closed_ = false;
  asio::any_io_executor executor_;
  std::optional<asio::steady_timer> wake_;
  std::optional<Exchange::Interruption> interruption_;
};

}  // namespace quern::server
