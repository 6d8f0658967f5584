// The engine's counters as Prometheus metrics, and quern's metrics under vLLM's names.
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

#include "quern/engine/engine.h"

namespace quern::server {

std::vector<prometheus::MetricFamily> EngineFamilies(const engine::EngineStats& stats);

// Copies of those of `families` that vLLM has too, under its names and labels (model_name), for
// routers and dashboards that read them. Source: vLLM, docs/usage/metrics.
std::vector<prometheus::MetricFamily> VllmFamilies(
    const std::vector<prometheus::MetricFamily>& families, const engine::EngineStats& stats,
    const std::string& model_name);

}  // namespace quern::server
