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
// and the pushing thread never waits.
class EventChannel : public std::enable_shared_from_this<EventChannel> {
 public:
  explicit EventChannel(asio::any_io_executor executor)
      : executor_(executor), wake_(executor, asio::steady_timer::time_point::max()) {}

  void Push(int choice, const engine::TokenEvent& event) {
    bool must_wake = false;
    {
      std::lock_guard lock(mutex_);
      events_.push_back({choice, event, std::chrono::steady_clock::now()});
      must_wake = std::exchange(waiting_, false);
    }
    if (must_wake) asio::post(executor_, [self = shared_from_this()] { self->wake_.cancel(); });
  }

  // On the strand: makes Next return at once, now and later.
  void Interrupt(Exchange::Interruption why) {
    interruption_ = why;
    wake_.cancel();
  }
  std::optional<Exchange::Interruption> interruption() const { return interruption_; }

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
      co_await wake_.async_wait(kAwaitTuple);
    }
    co_return std::vector<ChoiceEvent>();
  }

 private:
  asio::any_io_executor executor_;
  asio::steady_timer wake_;
  std::optional<Exchange::Interruption> interruption_;
  std::mutex mutex_;
  std::vector<ChoiceEvent> events_;
  bool waiting_ = false;
};

}  // namespace quern::server
