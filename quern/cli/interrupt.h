// Signals, for commands: ctrl-C as a flag that can be asked, and a watcher thread for the server.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace quern::cli {

// While alive, SIGINT sets a flag instead of ending the program, and interrupts blocking reads. One
// at a time.
class InterruptFlag {
 public:
  InterruptFlag();
  ~InterruptFlag();
  InterruptFlag(const InterruptFlag&) = delete;
  InterruptFlag& operator=(const InterruptFlag&) = delete;

  // True once per ctrl-C: asking clears it.
  static bool Take();
};

// Blocks SIGINT and SIGTERM in this thread and all started after it, and calls `handler(n)` for the
// nth such signal on a thread of its own. Make it before any other thread. The destructor stops
// watching.
class SignalWatcher {
 public:
  explicit SignalWatcher(std::function<void(int count)> handler);
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

 private:
  std::function<void(int)> handler_;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

}  // namespace quern::cli
