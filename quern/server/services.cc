#include "quern/server/services.h"

#include <algorithm>
#include <random>

namespace quern::server {
namespace {

std::mt19937_64& Random() {
  thread_local std::mt19937_64 random = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  return random;
}

}  // namespace

Services::Services(ServerOptions o, engine::Engine& e, const text::Tokenizer& t,
                   const text::ChatTemplate* c, ModelInfo m)
    : engine(e),
      tokenizer(t),
      chat_template(c),
      model(std::move(m)),
      options(std::move(o)),
      metrics(e) {
  if (model.max_model_len == 0) model.max_model_len = engine.max_model_len();
  if (options.served_model_names.empty()) options.served_model_names.push_back(model.name);
  if (options.vllm_metrics) metrics.AddVllmNames(model_name());
}

std::string Services::system_fingerprint() const {
  const std::string base = std::string("quern-") + Version();
  return model.fingerprint.empty() ? base : base + "-" + model.fingerprint;
}

std::optional<ApiError> Services::CheckModel(const std::optional<std::string>& name) const {
  const std::vector<std::string>& names = options.served_model_names;
  if (!name || std::find(names.begin(), names.end(), *name) != names.end()) return std::nullopt;
  std::string served;
  for (const std::string& known : names) served += (served.empty() ? "'" : ", '") + known + "'";
  return ModelNotFound(
      name->size() <= 200 ? *name : "(a name of " + std::to_string(name->size()) + " bytes)",
      served);
}

const char* Version() { return QUERN_VERSION; }

std::string RandomId(const char* prefix) {
  return fmt::format("{}{:016x}{:016x}", prefix, Random()(), Random()());
}
uint64_t RandomSeed() { return Random()(); }

}  // namespace quern::server
