// Which model_type is built by what, and the way from a path to a loaded model.
#include "quern/checkpoint/checkpoint.h"
#include "quern/checkpoint/fingerprint.h"
#include "quern/checkpoint/precision_plan.h"
#include "quern/model/expected_tensors.h"
#include "quern/model/glm_moe_dsa.h"
#include "quern/model/load_choice.h"

namespace quern::model {

Status Model::Draft(const DraftBatch&, const KvView&, std::vector<float>&) {
  return Unimplemented("the model has no MTP layer to draft with");
}

Status Model::DraftNext(std::span<const int32_t>, std::span<const int32_t>, const KvView&,
                        std::vector<float>&) {
  return Unimplemented("the model has no MTP layer to draft with");
}

namespace {

using LoadFn = Result<std::unique_ptr<Model>> (*)(const checkpoint::ModelConfig&, WeightLoader&,
                                                  backend::Backend&);

struct Row {
  const char* model_type;
  LoadFn load;
};
constexpr Row kModels[] = {
    {"glm_moe_dsa", LoadGlm},
    {"glm4_moe_lite", LoadGlm},
};

Result<Row> FindModel(const std::string& model_type) {
  std::string known;
  for (const Row& row : kModels) {
    if (model_type == row.model_type) return row;
    known += (known.empty() ? "" : ", ") + std::string(row.model_type);
  }
  return Unimplemented("model_type \"{}\" is not supported; supported: {}", model_type, known);
}

}  // namespace

Result<std::unique_ptr<Model>> LoadModel(const std::string& path, backend::Backend& backend,
                                         const LoadOptions& options,
                                         std::vector<std::string>& warnings) {
  checkpoint::Problems problems;
  QUERN_ASSIGN(std::unique_ptr<checkpoint::Checkpoint> checkpoint,
               checkpoint::Checkpoint::Open(path, problems));
  checkpoint::ModelConfig config =
      checkpoint::ParseModelConfig(checkpoint->config_json(), problems);
  QUERN_TRY(problems.ToStatus(path));  // without a sound config the expected tensors are unknown
  if (options.latent_norm_eps) config.latent_norm_eps = *options.latent_norm_eps;
  const checkpoint::PrecisionPlan plan = checkpoint::ResolvePrecisionPlan(
      *checkpoint, config, ExpectedTensors(config),
      {.read_scales = true, .trust_signatures = options.trust_signatures}, problems);
  if (options.strict) problems.PromoteWarnings();
  QUERN_TRY(problems.ToStatus(path));
  warnings.insert(warnings.end(), problems.warnings().begin(), problems.warnings().end());

  QUERN_ASSIGN(const Row row, FindModel(config.model_type));
  WeightLoader loader(*checkpoint, plan, backend, options);
  QUERN_ASSIGN(std::unique_ptr<Model> model, row.load(config, loader, backend));
  model->set_fingerprint(
      FingerprintOf(checkpoint::Fingerprint(*checkpoint), plan, options.compute));
  return model;
}

}  // namespace quern::model
