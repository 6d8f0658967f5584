#include "quern/server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <vector>

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

prometheus::MetricFamily EngineFamily(const char* name, const char* help,
                                      prometheus::MetricType type,
                                      const std::vector<std::pair<const char*, int64_t>>& values) {
  prometheus::MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  for (const auto& [reason, value] : values) {
    prometheus::ClientMetric metric;
    if (*reason != '\0') metric.label.push_back({"reason", reason});
    (type == prometheus::MetricType::Counter ? metric.counter.value : metric.gauge.value) =
        static_cast<double>(value);
    family.metric.push_back(std::move(metric));
  }
  return family;
}

std::vector<prometheus::MetricFamily> EngineFamilies(const engine::EngineStats& s) {
  constexpr auto kCounter = prometheus::MetricType::Counter;
  constexpr auto kGauge = prometheus::MetricType::Gauge;
  return {
      EngineFamily("quern_requests_running", "Sequences the engine is generating for.", kGauge,
                   {{"", s.num_running}}),
      EngineFamily("quern_requests_waiting", "Sequences queued in the engine.", kGauge,
                   {{"", s.num_waiting}}),
      EngineFamily("quern_prompt_tokens_total", "Prompt tokens of admitted sequences.", kCounter,
                   {{"", s.prompt_tokens}}),
      EngineFamily("quern_cached_prompt_tokens_total", "Prompt tokens found in the prefix cache.",
                   kCounter, {{"", s.cached_tokens}}),
      EngineFamily("quern_generated_tokens_total", "Generated tokens.", kCounter,
                   {{"", s.generated_tokens}}),
      EngineFamily("quern_engine_finished_total", "Sequences ended, by reason.", kCounter,
                   {{"stop", s.requests_finished_stop},
                    {"length", s.requests_finished_length},
                    {"cancelled", s.requests_cancelled},
                    {"error", s.requests_failed}}),
      EngineFamily("quern_kv_pages_used", "KV cache pages in use.", kGauge,
                   {{"", s.kv_pages_used}}),
      EngineFamily("quern_kv_pages_total", "KV cache pages there are.", kGauge,
                   {{"", s.kv_pages_total}}),
  };
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
void Metrics::CountFinish(const std::string& reason) {
  impl_->finishes.Add({{"reason", reason}}).Increment();
}

std::string Metrics::Text() const {
  std::vector<prometheus::MetricFamily> families = impl_->registry.Collect();
  for (prometheus::MetricFamily& family : EngineFamilies(impl_->engine.Stats())) {
    families.push_back(std::move(family));
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace quern::server
