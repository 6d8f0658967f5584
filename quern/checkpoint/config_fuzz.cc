// Any text as config.json with its quantization_config, and as generation_config.json: no crash, no
// runaway.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "quern/base/check.h"
#include "quern/checkpoint/config.h"
#include "quern/checkpoint/dialects/dialects.h"

namespace {

using namespace quern::checkpoint;  // NOLINT: a program of its own

// A usable config has tables of one entry per layer, and sizes whose products fit.
void CheckUsable(const ModelConfig& config) {
  const size_t layers = static_cast<size_t>(config.total_layers());
  QUERN_CHECK(config.is_moe.size() == layers && config.indexer_types.size() == layers);
  QUERN_CHECK(config.rope_theta > 0 && config.hidden_size > 0 && config.vocab_size > 0);
  QUERN_CHECK(config.experts_per_token <= config.num_experts);
  QUERN_CHECK(config.total_layers() * config.num_experts <= 1 << 18);
  QUERN_CHECK(!config.has_indexer() || config.indexer_types[0] == IndexerType::kFull);
}

void AskAboutModules(const quern::Json& quantization) {
  Problems problems;
  const std::unique_ptr<Dialect> dialect =
      ParseQuantization(quantization, "config.json: quantization_config", problems);
  if (dialect == nullptr) {
    QUERN_CHECK(!problems.errors().empty(), "refused without a reason");
    return;
  }
  for (const char* module :
       {"lm_head", "model.layers.3.mlp.experts.17.down_proj", "model.layers.78.eh_proj",
        "model.layers.0.self_attn.indexer.weights_proj", "model.layers.6.mlp.gate", ""}) {
    const Rule rule = dialect->Decide(module);
    WantedName(rule.wanted);
    QUERN_CHECK(!rule.text.empty());
  }
  dialect->Report(problems);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  quern::Result<quern::Json> json =
      quern::ParseJson(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!json.ok()) return 0;
  Problems problems;
  const ModelConfig config = ParseModelConfig(*json, problems);
  if (problems.errors().empty()) CheckUsable(config);
  ParseGenerationConfig(*json, problems);
  AskAboutModules(config.quantization);
  AskAboutModules(*json);  // the input may be the quantization config itself
  return 0;
}
