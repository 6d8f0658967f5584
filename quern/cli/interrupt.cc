#include "quern/cli/interrupt.h"

#include <signal.h>

#include <ctime>
#include <utility>

namespace quern::cli {
namespace {

volatile sig_atomic_t interrupted = 0;
struct sigaction previous_action;

void OnInterrupt(int) { interrupted = 1; }

sigset_t StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

InterruptFlag::InterruptFlag() {
  interrupted = 0;
  struct sigaction action = {};
  action.sa_handler = OnInterrupt;  // no SA_RESTART: a read that waits for a line returns
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previous_action);
}

InterruptFlag::~InterruptFlag() { sigaction(SIGINT, &previous_action, nullptr); }

bool InterruptFlag::Take() {
  if (interrupted == 0) return false;
  interrupted = 0;
  return true;
}

SignalWatcher::SignalWatcher(std::function<void(int count)> handler)
    : handler_(std::move(handler)) {
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  thread_ = std::thread([this, signals] {
    int count = 0;
    // The timeout is how a watcher without signals notices that it is done.
    const timespec timeout = {.tv_sec = 0, .tv_nsec = 100'000'000};
    while (!done_) {
      if (sigtimedwait(&signals, nullptr, &timeout) > 0) handler_(++count);
    }
  });
}

SignalWatcher::~SignalWatcher() {
  done_ = true;
  thread_.join();
}

}  // namespace quern::cli
