// A fixed pool of workers for data-parallel loops.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace quern {

// Owns `num_threads - 1` workers; the caller of ParallelFor is the last one. One ParallelFor at a
// time: the pool belongs to the thread that runs steps. Destroying it joins the workers.
class ThreadPool {
 public:
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return num_threads_; }

  // Calls fn(i, worker) once for each i in [0, count), worker in [0, num_threads()). Returns when
  // all are done. Which worker runs which i is not fixed, so fn(i, ...) must not depend on it.
  void ParallelFor(int64_t count, const std::function<void(int64_t i, int worker)>& fn);

  // The cores this process may run on.
  static int DefaultNumThreads();

 private:
  struct State;
  int num_threads_;
  std::unique_ptr<State> state_;
};

}  // namespace quern
