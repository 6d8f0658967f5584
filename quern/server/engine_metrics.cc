#include "quern/server/engine_metrics.h"

#include <algorithm>

namespace quern::server {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

struct Value {
  std::string label;  // value of the family's label, if it has one
  double value;
};

MetricFamily Family(const char* name, const char* help, MetricType type, const char* label,
                    const std::vector<Value>& values) {
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  for (const Value& v : values) {
    prometheus::ClientMetric metric;
    if (*label != '\0') metric.label.push_back({label, v.label});
    (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = v.value;
    family.metric.push_back(std::move(metric));
  }
  return family;
}

MetricFamily Gauge(const char* name, const char* help, int64_t value) {
  return Family(name, help, MetricType::Gauge, "", {{"", static_cast<double>(value)}});
}

MetricFamily Counter(const char* name, const char* help, int64_t value) {
  return Family(name, help, MetricType::Counter, "", {{"", static_cast<double>(value)}});
}

// By position behind the last token, up to the last one ever drafted.
std::vector<Value> ByPosition(const std::array<int64_t, engine::kMaxDrafts>& counts,
                              const std::array<int64_t, engine::kMaxDrafts>& drafted) {
  std::vector<Value> values;
  for (size_t i = 0; i < counts.size() && drafted[i] > 0; ++i) {
    values.push_back({std::to_string(i), static_cast<double>(counts[i])});
  }
  return values;
}

double Sum(const std::array<int64_t, engine::kMaxDrafts>& counts) {
  double sum = 0;
  for (int64_t count : counts) sum += static_cast<double>(count);
  return sum;
}

}  // namespace

std::vector<MetricFamily> EngineFamilies(const engine::EngineStats& s) {
  return {
      Gauge("quern_requests_running", "Sequences that are computed in the engine's steps.",
            s.num_running),
      Gauge("quern_requests_waiting", "Sequences queued in the engine.", s.num_waiting),
      Counter("quern_prompt_tokens_total", "Prompt tokens of ended sequences.", s.prompt_tokens),
      Counter("quern_cached_prompt_tokens_total",
              "Prompt tokens of ended sequences that the prefix cache had.", s.cached_tokens),
      Counter("quern_generated_tokens_total", "Generated tokens of ended sequences.",
              s.generated_tokens),
      Family("quern_engine_finished_total", "Sequences ended, by reason.", MetricType::Counter,
             "reason",
             {{"stop", static_cast<double>(s.requests_finished_stop)},
              {"length", static_cast<double>(s.requests_finished_length)},
              {"cancelled", static_cast<double>(s.requests_cancelled)},
              {"error", static_cast<double>(s.requests_failed)}}),
      Gauge("quern_kv_pages_used", "KV cache pages that sequences hold.", s.kv_pages_used),
      Gauge("quern_kv_pages_cached", "KV cache pages kept for prompts to come.", s.kv_pages_cached),
      Gauge("quern_kv_pages_total", "KV cache pages there are.", s.kv_pages_total),
      Counter("quern_kv_pages_evicted_total", "Kept pages that were dropped to make room.",
              s.pages_evicted),
      Counter("quern_kv_pages_restored_total", "Pages read back from the cache directory.",
              s.pages_restored),
      Counter("quern_preemptions_total", "Times a sequence lost its pages and started over.",
              s.preemptions),
      Counter("quern_prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.",
              s.prefix_queries),
      Counter("quern_prefix_cache_hits_total", "Prompt tokens found in the prefix cache.",
              s.prefix_hits),
      Family("quern_draft_tokens_total", "Tokens drafted, by position behind the last token.",
             MetricType::Counter, "position", ByPosition(s.drafted, s.drafted)),
      Family("quern_accepted_tokens_total", "Drafted tokens that were right, by position.",
             MetricType::Counter, "position", ByPosition(s.accepted, s.drafted)),
      Counter("quern_engine_steps_total", "Steps of the engine.", s.steps),
      Family("quern_engine_step_seconds_total", "Time of the engine's steps, by part.",
             MetricType::Counter, "part",
             {{"schedule", s.schedule_seconds},
              {"model", s.model_seconds},
              {"sample", s.sample_seconds},
              {"draft", s.draft_seconds}}),
  };
}

std::vector<MetricFamily> VllmFamilies(const std::vector<MetricFamily>& families,
                                       const engine::EngineStats& stats,
                                       const std::string& model_name) {
  struct Alias {
    const char* ours;
    const char* theirs;
  };
  constexpr Alias kAliases[] = {
      {"quern_requests_running", "vllm:num_requests_running"},
      {"quern_requests_waiting", "vllm:num_requests_waiting"},
      {"quern_prompt_tokens_total", "vllm:prompt_tokens_total"},
      {"quern_generated_tokens_total", "vllm:generation_tokens_total"},
      {"quern_preemptions_total", "vllm:num_preemptions_total"},
      {"quern_prefix_cache_queries_total", "vllm:prefix_cache_queries_total"},
      {"quern_prefix_cache_hits_total", "vllm:prefix_cache_hits_total"},
      {"quern_accepted_tokens_total", "vllm:spec_decode_num_accepted_tokens_per_pos_total"},
      {"quern_time_to_first_token_seconds", "vllm:time_to_first_token_seconds"},
      {"quern_inter_token_latency_seconds", "vllm:inter_token_latency_seconds"},
      {"quern_request_duration_seconds", "vllm:e2e_request_latency_seconds"},
      {"quern_queue_seconds", "vllm:request_queue_time_seconds"},
  };
  std::vector<MetricFamily> result;
  for (const Alias& alias : kAliases) {
    const auto it = std::find_if(families.begin(), families.end(),
                                 [&](const MetricFamily& f) { return f.name == alias.ours; });
    if (it == families.end()) continue;
    MetricFamily family = *it;
    family.name = alias.theirs;
    result.push_back(std::move(family));
  }
  const double used = static_cast<double>(stats.kv_pages_used);
  const double total = static_cast<double>(std::max<int64_t>(stats.kv_pages_total, 1));
  result.push_back(Family("vllm:kv_cache_usage_perc", "Share of the KV cache that is used, 0 to 1.",
                          MetricType::Gauge, "", {{"", used / total}}));
  result.push_back(Family("vllm:spec_decode_num_draft_tokens_total", "Tokens drafted.",
                          MetricType::Counter, "", {{"", Sum(stats.drafted)}}));
  result.push_back(Family("vllm:spec_decode_num_accepted_tokens_total", "Drafts that were right.",
                          MetricType::Counter, "", {{"", Sum(stats.accepted)}}));
  result.push_back(Family("vllm:spec_decode_num_drafts_total", "Rounds with drafts.",
                          MetricType::Counter, "",
                          {{"", static_cast<double>(stats.drafted.front())}}));
  result.push_back(Family("vllm:request_success_total", "Requests ended well, by reason.",
                          MetricType::Counter, "finished_reason",
                          {{"stop", static_cast<double>(stats.requests_finished_stop)},
                           {"length", static_cast<double>(stats.requests_finished_length)},
                           {"abort", static_cast<double>(stats.requests_cancelled)}}));
  for (MetricFamily& family : result) {
    for (prometheus::ClientMetric& metric : family.metric) {
      metric.label.insert(metric.label.begin(), {"model_name", model_name});
    }
  }
  return result;
}

}  // namespace quern::server
