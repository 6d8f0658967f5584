// What every endpoint works with.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "quern/server/errors.h"
#include "quern/server/metrics.h"
#include "quern/server/server.h"

namespace quern::server {

// One per server; outlives its connections. Everything but `draining` is fixed after construction.
struct Services {
  engine::Engine& engine;
  const text::Tokenizer& tokenizer;
  const text::ChatTemplate* chat_template;  // may be null
  ModelInfo model;                          // max_model_len filled in
  ServerOptions options;                    // served_model_names filled in, never empty
  Metrics metrics;
  std::atomic<bool> draining{false};

  Services(ServerOptions o, engine::Engine& e, const text::Tokenizer& t,
           const text::ChatTemplate* c, ModelInfo m);

  // The name answers carry.
  const std::string& model_name() const { return options.served_model_names.front(); }
  std::string system_fingerprint() const;
  // An error unless `name` is absent or one of the served names.
  std::optional<ApiError> CheckModel(const std::optional<std::string>& name) const;
};

// "0.1.0"
const char* Version();

// `prefix` and 32 random hexadecimal digits.
std::string RandomId(const char* prefix);
uint64_t RandomSeed();

}  // namespace quern::server
