#include "quern/base/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "quern/base/check.h"

namespace quern {

struct ThreadPool::State {
  std::mutex mutex;
  std::condition_variable wake;  // a new generation, or stop
  std::condition_variable done;  // the last worker left the loop
  uint64_t generation = 0;
  bool stop = false;
  int busy = 0;
  int64_t count = 0;
  const std::function<void(int64_t, int)>* fn = nullptr;
  std::atomic<int64_t> next{0};
  std::atomic<uint64_t> published{0};  // generation, readable without the lock while spinning
  std::vector<std::thread> workers;

  void Drain(int worker) {
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) (*fn)(i, worker);
  }

  void WorkerLoop(int worker) {
    uint64_t seen = 0;
    while (true) {
      // Steps launch loops back to back; a short spin catches the next one without a futex round
      // trip.
      for (int spin = 0; spin < 2000 && published.load(std::memory_order_acquire) == seen; ++spin) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
      }
      std::unique_lock lock(mutex);
      wake.wait(lock, [&] { return stop || generation != seen; });
      if (stop) return;
      seen = generation;
      lock.unlock();
      Drain(worker);
      lock.lock();
      if (--busy == 0) done.notify_one();
    }
  }
};

ThreadPool::ThreadPool(int num_threads) : num_threads_(num_threads), state_(new State) {
  QUERN_CHECK(num_threads >= 1, "num_threads = {}", num_threads);
  for (int w = 1; w < num_threads; ++w) {
    state_->workers.emplace_back([this, w] { state_->WorkerLoop(w); });
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stop = true;
    state_->published.fetch_add(1, std::memory_order_release);
  }
  state_->wake.notify_all();
  for (auto& t : state_->workers) t.join();
}

void ThreadPool::ParallelFor(int64_t count, const std::function<void(int64_t, int)>& fn) {
  if (count <= 0) return;
  if (num_threads_ == 1 || count == 1) {
    for (int64_t i = 0; i < count; ++i) fn(i, 0);
    return;
  }
  State& s = *state_;
  {
    std::lock_guard lock(s.mutex);
    s.fn = &fn;
    s.count = count;
    s.next.store(0, std::memory_order_relaxed);
    s.busy = num_threads_ - 1;
    s.published.store(++s.generation, std::memory_order_release);
  }
  s.wake.notify_all();
  s.Drain(0);
  std::unique_lock lock(s.mutex);
  s.done.wait(lock, [&] { return s.busy == 0; });
}

int ThreadPool::DefaultNumThreads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace quern
