// What /metrics shows, in Prometheus' text format. Names and meanings: docs/api.md.
#pragma once

#include <memory>
#include <string>

#include "quern/engine/engine.h"

namespace quern::server {

// Owns the counters. Thread-safe. The engine must outlive it: its own counters are read when asked
// for.
class Metrics {
 public:
  explicit Metrics(const engine::Engine& engine);
  ~Metrics();

  // One answered HTTP request; `endpoint` is a route's path, "unknown" for none.
  void CountRequest(const std::string& endpoint, int status);
  void ConnectionOpened();
  void ConnectionClosed();

  void ObserveTimeToFirstToken(double seconds);
  void ObserveInterTokenLatency(double seconds);
  void ObserveEndToEnd(double seconds);
  void ObserveQueueTime(double seconds);
  // A generation request that ended: "stop", "length", "tool_calls", "cancelled" or "error", once
  // per choice.
  void CountFinish(const std::string& reason);

  // Adds the same numbers under vLLM's names, labelled with the model. Before the first Text().
  void AddVllmNames(const std::string& model_name);

  std::string Text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern::server
