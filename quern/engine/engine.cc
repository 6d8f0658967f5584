#include "quern/engine/engine.h"

#include <algorithm>
#include <fstream>

#include "quern/engine/batch_engine.h"
#include "quern/text/tokenizer.h"

namespace quern::engine {
namespace {

// MemAvailable of /proc/meminfo; 1 GiB when it cannot be read.
int64_t AvailableMemoryBytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string key, unit;
  int64_t kib = 0;
  while (meminfo >> key >> kib) {
    std::getline(meminfo, unit);
    if (key == "MemAvailable:") return kib * 1024;
  }
  return int64_t{1} << 30;
}

// Full-length contexts that the cache holds when memory allows and nobody says otherwise.
constexpr int64_t kContextsByDefault = 4;

}  // namespace

Result<std::unique_ptr<Engine>> CreateEngine(model::Model& model, const text::Tokenizer& tokenizer,
                                             const EngineOptions& options) {
  const checkpoint::ModelConfig& config = model.config();
  if (options.draft.num_drafts < 1 || options.draft.num_drafts > kMaxDrafts) {
    return InvalidArgument("{} drafts given, 1 to {} wanted", options.draft.num_drafts, kMaxDrafts);
  }
  const double simulated = options.draft.simulated_accept_length;
  if (simulated != 0 && !(simulated >= 1 && simulated <= options.draft.num_drafts + 1)) {
    return InvalidArgument("a simulated acceptance of {} tokens per round; 1 to {} wanted",
                           simulated, options.draft.num_drafts + 1);
  }
  const model::KvLayout layout = model::MakeKvLayout(
      config, {.with_mtp = model.has_mtp() && options.draft.mode != DraftMode::kOff,
               .dtype = options.kv_dtype});
  const int64_t page_bytes = layout.bytes_per_page();
  if (options.max_model_len > config.max_positions) {
    return InvalidArgument("max_model_len {} is over the model's {} positions",
                           options.max_model_len, config.max_positions);
  }
  if (options.prefill_chunk < 1)
    return InvalidArgument("prefill_chunk {} given, at least 1 wanted", options.prefill_chunk);
  const int64_t wanted_len =
      options.max_model_len > 0 ? options.max_model_len : config.max_positions;
  // Half of what is free now: the rest is for activations and the other programs.
  const int64_t budget =
      options.kv_cache_bytes > 0 ? options.kv_cache_bytes : AvailableMemoryBytes() / 2;
  const int64_t wanted_pages = (wanted_len + backend::kPageTokens - 1) / backend::kPageTokens;
  // Room for as many full contexts as run together would never be asked for; a given budget is
  // used whole.
  const int64_t most_pages =
      options.kv_cache_bytes > 0 ? budget / page_bytes : wanted_pages * kContextsByDefault;
  const int64_t num_pages = std::min(most_pages, budget / page_bytes);
  if (num_pages < 1 || (options.max_model_len > 0 && num_pages < wanted_pages)) {
    return ResourceExhausted(
        "a context of {} tokens needs {} bytes of KV cache, {} are given; lower --max-model-len or "
        "raise --kv-cache-gb",
        wanted_len, wanted_pages * page_bytes, budget);
  }
  const int64_t max_model_len = std::min(wanted_len, num_pages * backend::kPageTokens);
  QUERN_ASSIGN(std::unique_ptr<cache::KvCache> cache,
               cache::KvCache::Create(model.backend(), layout, num_pages));
  std::unique_ptr<cache::DiskStore> store;
  if (!options.cache_dir.empty()) {
    const std::string identity =
        fmt::format("{} keys {} mtp {} page {}", model.fingerprint(), DtypeName(layout.dtype),
                    layout.tail_dim > 0, cache->page_bytes());
    QUERN_ASSIGN(store, cache::DiskStore::Open({.directory = options.cache_dir,
                                                .max_bytes = options.cache_dir_bytes,
                                                .identity = identity,
                                                .page_bytes = cache->page_bytes()}));
  }
  return std::unique_ptr<Engine>(std::make_unique<BatchEngine>(
      model, tokenizer, options, std::move(cache), std::move(store), max_model_len));
}

}  // namespace quern::engine
