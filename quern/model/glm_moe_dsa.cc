#include "quern/model/glm_moe_dsa.h"

#include <algorithm>

#include "quern/model/parts/decoder_layer.h"

namespace quern::model {
namespace {

using backend::Tensor;

// The multi-token-prediction layer: h' = layer(eh_proj([enorm(embed(next)) | hnorm(h)])), then
// shared_head.norm.
struct MtpLayer {
  Vector enorm, hnorm, head_norm;
  std::unique_ptr<backend::LinearWeights> eh_proj;
  DecoderLayer layer;

  static Result<MtpLayer> Load(WeightLoader& loader, const checkpoint::ModelConfig& cfg,
                               int64_t index) {
    MtpLayer m;
    const std::string prefix = fmt::format("model.layers.{}.", index);
    QUERN_ASSIGN(m.enorm, loader.F32Vector(prefix + "enorm.weight"));
    QUERN_ASSIGN(m.hnorm, loader.F32Vector(prefix + "hnorm.weight"));
    QUERN_ASSIGN(m.head_norm, loader.F32Vector(prefix + "shared_head.norm.weight"));
    QUERN_ASSIGN(m.eh_proj, loader.Linear({prefix + "eh_proj"}));
    QUERN_ASSIGN(m.layer, DecoderLayer::Load(loader, cfg, index));
    return m;
  }
};

class GlmModel : public Model {
 public:
  GlmModel(const checkpoint::ModelConfig& config, backend::Backend& be)
      : config_(config), be_(be), scratch_(be) {}

  Status Load(WeightLoader& loader) {
    QUERN_ASSIGN(embed_, loader.Table("model.embed_tokens"));
    for (int64_t i = 0; i < config_.num_layers; ++i) {
      QUERN_ASSIGN(DecoderLayer layer, DecoderLayer::Load(loader, config_, i));
      layers_.push_back(std::move(layer));
    }
    for (int64_t i = config_.num_layers; i < config_.total_layers(); ++i) {
      QUERN_ASSIGN(MtpLayer layer, MtpLayer::Load(loader, config_, i));
      mtp_.push_back(std::move(layer));
    }
    QUERN_ASSIGN(norm_, loader.F32Vector("model.norm.weight"));
    QUERN_ASSIGN(lm_head_,
                 loader.Linear({config_.tie_word_embeddings ? "model.embed_tokens" : "lm_head"}));
    weight_bytes_ = loader.weight_bytes();
    return OkStatus();
  }

  const checkpoint::ModelConfig& config() const override { return config_; }
  backend::Backend& backend() const override { return be_; }
  int64_t weight_bytes() const override { return weight_bytes_; }

  Status Forward(const StepBatch& batch, const KvView& kv, std::vector<float>& logits) override;

 private:
  // A host array as an i32 tensor on the backend.
  Result<Tensor> Upload(const std::vector<int32_t>& values) {
    QUERN_ASSIGN(const Tensor t, scratch_.Take(Dtype::kI32, {static_cast<int64_t>(values.size())}));
    QUERN_TRY(be_.CopyToDevice(values.data(), t));
    return t;
  }
  Status Check(const StepBatch& batch) const;
  Result<Step> Begin(const StepBatch& batch);
  Status Logits(const StepBatch& batch, const Tensor& h, std::vector<float>& logits);

  checkpoint::ModelConfig config_;
  backend::Backend& be_;
  Scratch scratch_;
  std::unique_ptr<backend::TableWeights> embed_;
  std::vector<DecoderLayer> layers_;
  std::vector<MtpLayer> mtp_;
  Vector norm_;
  std::unique_ptr<backend::LinearWeights> lm_head_;
  int64_t weight_bytes_ = 0;
};

Status GlmModel::Check(const StepBatch& batch) const {
  const size_t rows = batch.tokens.size();
  if (rows == 0 || batch.positions.size() != rows || batch.sequences.size() != rows ||
      batch.max_pages < 1) {
    return InvalidArgument("a step of {} tokens, {} positions, {} sequences", rows,
                           batch.positions.size(), batch.sequences.size());
  }
  const int64_t sequences = static_cast<int64_t>(batch.page_tables.size()) / batch.max_pages;
  for (size_t i = 0; i < rows; ++i) {
    if (batch.tokens[i] < 0 || batch.tokens[i] >= config_.vocab_size) {
      return InvalidArgument("token id {} is outside the vocabulary of {}", batch.tokens[i],
                             config_.vocab_size);
    }
    const int64_t page = batch.positions[i] / backend::kPageTokens;
    if (batch.positions[i] < 0 || page >= batch.max_pages || batch.sequences[i] < 0 ||
        batch.sequences[i] >= sequences) {
      return InvalidArgument(
          "row {} is position {} of sequence {}: outside {} page tables of {} pages", i,
          batch.positions[i], batch.sequences[i], sequences, batch.max_pages);
    }
  }
  return OkStatus();
}

Result<Step> GlmModel::Begin(const StepBatch& batch) {
  const int64_t tokens = static_cast<int64_t>(batch.tokens.size());
  Step step(be_, scratch_, config_, tokens);
  QUERN_ASSIGN(step.batch.positions, Upload(batch.positions));
  QUERN_ASSIGN(step.batch.sequences, Upload(batch.sequences));
  const int64_t sequences = static_cast<int64_t>(batch.page_tables.size()) / batch.max_pages;
  QUERN_ASSIGN(step.batch.page_tables, scratch_.Take(Dtype::kI32, {sequences, batch.max_pages}));
  QUERN_TRY(be_.CopyToDevice(batch.page_tables.data(), step.batch.page_tables));

  const int64_t half = config_.qk_rope_head_dim / 2;
  QUERN_ASSIGN(step.rope, scratch_.Take(Dtype::kF32, {tokens, 2, half}));
  QUERN_TRY(be_.RopeTable({.positions = step.batch.positions,
                           .theta = config_.rope_theta,
                           .dim = config_.qk_rope_head_dim,
                           .out = step.rope}));

  // Selecting everything gives the bits of no selection, so short contexts skip the scoring.
  const int32_t last = *std::max_element(batch.positions.begin(), batch.positions.end());
  step.sparse = config_.has_indexer() && last >= config_.index_topk;
  if (step.sparse) {
    QUERN_ASSIGN(step.selected.positions, scratch_.Take(Dtype::kI32, {tokens, config_.index_topk}));
    QUERN_ASSIGN(step.selected.counts, scratch_.Take(Dtype::kI32, {tokens}));
  }
  return step;
}

Status GlmModel::Forward(const StepBatch& batch, const KvView& kv, std::vector<float>& logits) {
  QUERN_TRY(Check(batch));
  Scratch::Frame frame(scratch_);
  QUERN_ASSIGN(Step step, Begin(batch));
  QUERN_ASSIGN(const Tensor ids, Upload(batch.tokens));
  QUERN_ASSIGN(const Tensor h, scratch_.Take(step.activation, {step.tokens, config_.hidden_size}));
  QUERN_TRY(be_.Embed({.table = *embed_, .ids = ids, .y = h}));
  for (size_t i = 0; i < layers_.size(); ++i) QUERN_TRY(layers_[i].Forward(step, kv.layers[i], h));
  return Logits(batch, h, logits);
}

// Only the rows asked for reach the final norm and lm_head.
Status GlmModel::Logits(const StepBatch& batch, const Tensor& h, std::vector<float>& logits) {
  const int64_t rows = static_cast<int64_t>(batch.logit_rows.size());
  logits.resize(static_cast<size_t>(rows * config_.vocab_size));
  if (rows == 0) return OkStatus();
  QUERN_ASSIGN(const Tensor wanted, Upload(batch.logit_rows));
  QUERN_ASSIGN(const Tensor x, scratch_.Take(h.dtype, {rows, config_.hidden_size}));
  QUERN_TRY(be_.GatherRows({.x = h, .rows = wanted, .y = x}));
  QUERN_TRY(be_.RmsNorm({.x = x, .weight = norm_.tensor, .eps = config_.rms_norm_eps, .y = x}));
  QUERN_ASSIGN(const Tensor y, scratch_.Take(Dtype::kF32, {rows, config_.vocab_size}));
  QUERN_TRY(be_.Linear({.x = x, .w = *lm_head_, .y = y}));
  return be_.CopyToHost(y, logits.data());
}

}  // namespace

Result<std::unique_ptr<Model>> LoadGlm(const checkpoint::ModelConfig& config, WeightLoader& loader,
                                       backend::Backend& backend) {
  auto model = std::make_unique<GlmModel>(config, backend);
  QUERN_TRY(model->Load(loader));
  return std::unique_ptr<Model>(std::move(model));
}

}  // namespace quern::model
