#include "quern/server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <vector>

#include "quern/server/engine_metrics.h"

namespace quern::server {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

// Seconds. First tokens take milliseconds (short prompts) to minutes (a million tokens).
const Buckets kFirstTokenBuckets = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                                    2.5,   5,    10,    30,   60,  120,  300};
const Buckets kInterTokenBuckets = {0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05,
                                    0.075, 0.1,    0.15,  0.25, 0.5,  1,    2.5};
const Buckets kEndToEndBuckets = {0.05, 0.1, 0.25, 0.5, 1,   2.5,  5,   10,
                                  30,   60,  120,  300, 600, 1800, 3600};

prometheus::Histogram& MakeHistogram(prometheus::Registry& registry, const char* name,
                                     const char* help, const Buckets& buckets) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
}

}  // namespace

struct Metrics::Impl {
  explicit Impl(const engine::Engine& e) : engine(e) {}

  const engine::Engine& engine;
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& requests =
      prometheus::BuildCounter()
          .Name("quern_http_requests_total")
          .Help("HTTP requests answered, by endpoint and status.")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& finishes =
      prometheus::BuildCounter()
          .Name("quern_choices_finished_total")
          .Help("Choices of generation requests ended, by the finish reason the client was told.")
          .Register(registry);
  prometheus::Gauge& connections = prometheus::BuildGauge()
                                       .Name("quern_http_connections")
                                       .Help("Open HTTP connections.")
                                       .Register(registry)
                                       .Add({});
  prometheus::Histogram& first_token = MakeHistogram(
      registry, "quern_time_to_first_token_seconds",
      "From a request's last byte to its first token, once per request.", kFirstTokenBuckets);
  prometheus::Histogram& inter_token = MakeHistogram(
      registry, "quern_inter_token_latency_seconds",
      "Gap between two tokens of one choice, as the engine delivers them.", kInterTokenBuckets);
  prometheus::Histogram& end_to_end =
      MakeHistogram(registry, "quern_request_duration_seconds",
                    "From a request's last byte to its last token, once per completed request.",
                    kEndToEndBuckets);
  prometheus::Histogram& queue =
      MakeHistogram(registry, "quern_queue_seconds",
                    "Wait of a sequence in the engine before its first step.", kFirstTokenBuckets);
  std::string vllm_model_name;
};

Metrics::Metrics(const engine::Engine& engine) : impl_(std::make_unique<Impl>(engine)) {}
Metrics::~Metrics() = default;

void Metrics::CountRequest(const std::string& endpoint, int status) {
  impl_->requests.Add({{"endpoint", endpoint}, {"status", std::to_string(status)}}).Increment();
}
void Metrics::ConnectionOpened() { impl_->connections.Increment(); }
void Metrics::ConnectionClosed() { impl_->connections.Decrement(); }
void Metrics::ObserveTimeToFirstToken(double seconds) { impl_->first_token.Observe(seconds); }
void Metrics::ObserveInterTokenLatency(double seconds) { impl_->inter_token.Observe(seconds); }
void Metrics::ObserveEndToEnd(double seconds) { impl_->end_to_end.Observe(seconds); }
void Metrics::ObserveQueueTime(double seconds) { impl_->queue.Observe(seconds); }
void Metrics::AddVllmNames(const std::string& model_name) { impl_->vllm_model_name = model_name; }
void Metrics::CountFinish(const std::string& reason) {
  impl_->finishes.Add({{"reason", reason}}).Increment();
}

std::string Metrics::Text() const {
  std::vector<prometheus::MetricFamily> families = impl_->registry.Collect();
  const engine::EngineStats stats = impl_->engine.Stats();
  const auto append = [&](std::vector<prometheus::MetricFamily> more) {
    for (prometheus::MetricFamily& family : more) families.push_back(std::move(family));
  };
  append(EngineFamilies(stats));
  if (!impl_->vllm_model_name.empty()) {
    append(VllmFamilies(families, stats, impl_->vllm_model_name));
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace quern::server
