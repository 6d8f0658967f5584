#include "quern/model/glm_moe_dsa.h"

#include <algorithm>

#include "quern/model/parts/decoder_layer.h"
#include "quern/model/parts/mtp.h"

namespace quern::model {
namespace {

using backend::Tensor;

// What a draft needs of the one before it.
struct DraftState {
  std::vector<int32_t> positions;  // [rows] last settled position of the row's sequence
  std::vector<int32_t> sequences;  // [rows] row of page_tables
  Tensor page_tables;
  Tensor recycled;  // [rows, hidden] the MTP layer's output
  bool sparse = false;
  backend::Selection selected;  // of the rows, when sparse
  int32_t depth = 0;            // drafts made behind each row
};

class GlmModel : public Model {
 public:
  GlmModel(const checkpoint::ModelConfig& config, backend::Backend& be)
      : config_(config), be_(be), scratch_(be), kept_(be) {}

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

  bool has_mtp() const override { return !mtp_.empty(); }
  Status Draft(const DraftBatch& batch, const KvView& kv, std::vector<float>& logits) override;
  Status DraftNext(std::span<const int32_t> rows, std::span<const int32_t> tokens, const KvView& kv,
                   std::vector<float>& logits) override;

 private:
  // A host array as an i32 tensor on the backend.
  Result<Tensor> Upload(const std::vector<int32_t>& values) {
    QUERN_ASSIGN(const Tensor t, scratch_.Take(Dtype::kI32, {static_cast<int64_t>(values.size())}));
    QUERN_TRY(be_.CopyToDevice(values.data(), t));
    return t;
  }
  Status Check(const StepBatch& batch) const;
  Result<Step> Begin(const StepBatch& batch);
  Result<Tensor> RopeTable(const Tensor& positions);
  Status KeepHidden(const StepBatch& batch, const KvView& kv, const Tensor& h);
  Result<Tensor> PreviousHidden(const DraftBatch& batch, const KvView& kv, Dtype dtype);
  Result<Tensor> Gather(const Tensor& x, const std::vector<int32_t>& rows, Scratch& scratch);
  Result<backend::Selection> GatherSelection(const backend::Selection& from,
                                             const std::vector<int32_t>& rows);
  Status Head(const Tensor& x, std::vector<float>& logits);

  checkpoint::ModelConfig config_;
  backend::Backend& be_;
  Scratch scratch_;
  // What outlives a call: hidden states of the last Forward, state of the last draft.
  Scratch kept_;
  std::optional<Scratch::Frame> kept_hidden_, kept_draft_;
  Tensor hidden_;  // [1 + rows, hidden]; row 0 is zeros, for position 0
  DraftState draft_;
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

  QUERN_ASSIGN(step.rope, RopeTable(step.batch.positions));

  // Selecting everything gives the bits of no selection, so short contexts skip the scoring.
  const int32_t last = *std::max_element(batch.positions.begin(), batch.positions.end());
  step.sparse = config_.has_indexer() && last >= config_.index_topk;
  if (step.sparse) {
    QUERN_ASSIGN(step.selected.positions, scratch_.Take(Dtype::kI32, {tokens, config_.index_topk}));
    QUERN_ASSIGN(step.selected.counts, scratch_.Take(Dtype::kI32, {tokens}));
  }
  return step;
}

Result<Tensor> GlmModel::RopeTable(const Tensor& positions) {
  const int64_t dim = config_.qk_rope_head_dim;
  QUERN_ASSIGN(const Tensor table, scratch_.Take(Dtype::kF32, {positions.dim(0), 2, dim / 2}));
  QUERN_TRY(be_.RopeTable(
      {.positions = positions, .theta = config_.rope_theta, .dim = dim, .out = table}));
  return table;
}

Result<Tensor> GlmModel::Gather(const Tensor& x, const std::vector<int32_t>& rows,
                                Scratch& scratch) {
  QUERN_ASSIGN(const Tensor y,
               scratch.Take(x.dtype, {static_cast<int64_t>(rows.size()), x.dim(1)}));
  QUERN_ASSIGN(const Tensor wanted, Upload(rows));
  QUERN_TRY(be_.GatherRows({.x = x, .rows = wanted, .y = y}));
  return y;
}

Result<backend::Selection> GlmModel::GatherSelection(const backend::Selection& from,
                                                     const std::vector<int32_t>& rows) {
  backend::Selection to;
  QUERN_ASSIGN(to.positions, Gather(from.positions, rows, kept_));
  QUERN_ASSIGN(const Tensor counts,
               Gather(from.counts.SplitLast(from.counts.dim(0), 1), rows, kept_));
  to.counts = Tensor(Dtype::kI32, {counts.dim(0)}, counts.data);
  return to;
}

Status GlmModel::Forward(const StepBatch& batch, const KvView& kv, std::vector<float>& logits) {
  QUERN_TRY(Check(batch));
  Scratch::Frame frame(scratch_);
  QUERN_ASSIGN(Step step, Begin(batch));
  QUERN_ASSIGN(const Tensor ids, Upload(batch.tokens));
  QUERN_ASSIGN(const Tensor h, scratch_.Take(step.activation, {step.tokens, config_.hidden_size}));
  QUERN_TRY(be_.Embed({.table = *embed_, .ids = ids, .y = h}));
  for (size_t i = 0; i < layers_.size(); ++i) QUERN_TRY(layers_[i].Forward(step, kv.layers[i], h));
  if (batch.keep_hidden) QUERN_TRY(KeepHidden(batch, kv, h));
  logits.clear();
  if (batch.logit_rows.empty()) return OkStatus();

  // Only the rows asked for reach the final norm and lm_head.
  QUERN_ASSIGN(const Tensor x, Gather(h, batch.logit_rows, scratch_));
  QUERN_TRY(be_.RmsNorm({.x = x, .weight = norm_.tensor, .eps = config_.rms_norm_eps, .y = x}));
  return Head(x, logits);
}

// x [rows, hidden], normed -> logits [rows, vocab_size] in host memory.
Status GlmModel::Head(const Tensor& x, std::vector<float>& logits) {
  const int64_t rows = x.dim(0);
  logits.resize(static_cast<size_t>(rows * config_.vocab_size));
  QUERN_ASSIGN(const Tensor y, scratch_.Take(Dtype::kF32, {rows, config_.vocab_size}));
  QUERN_TRY(be_.Linear({.x = x, .w = *lm_head_, .y = y}));
  return be_.CopyToHost(y, logits.data());
}

Status GlmModel::KeepHidden(const StepBatch& batch, const KvView& kv, const Tensor& h) {
  kept_draft_.reset();
  kept_hidden_.reset();
  kept_hidden_.emplace(kept_);
  QUERN_ASSIGN(hidden_, kept_.Take(h.dtype, {1 + h.dim(0), h.dim(1)}));
  const Tensor zeros = hidden_.Rows(0, 1), rows = hidden_.Rows(1, h.dim(0));
  QUERN_TRY(
      be_.CopyToDevice(std::vector<std::byte>(static_cast<size_t>(zeros.bytes())).data(), zeros));
  QUERN_TRY(be_.RmsNorm({.x = h, .weight = norm_.tensor, .eps = config_.rms_norm_eps, .y = rows}));
  std::vector<int32_t> ends, pages;
  for (size_t i = 0; i < batch.positions.size(); ++i) {
    const int64_t position = batch.positions[i];
    if ((position + 1) % backend::kPageTokens != 0) continue;
    ends.push_back(static_cast<int32_t>(i));
    pages.push_back(batch.page_tables[static_cast<size_t>(batch.sequences[i] * batch.max_pages +
                                                          position / backend::kPageTokens)]);
  }
  if (ends.empty()) return OkStatus();
  QUERN_ASSIGN(const Tensor tails, Gather(rows, ends, scratch_));
  QUERN_ASSIGN(const Tensor where, Upload(pages));
  return be_.ScatterRows({.x = tails, .rows = where, .y = kv.tails});
}

// [rows, hidden]: the hidden state of the position before each row.
Result<Tensor> GlmModel::PreviousHidden(const DraftBatch& batch, const KvView& kv, Dtype dtype) {
  std::vector<int32_t> kept, tail_rows, tail_pages;
  for (size_t i = 0; i < batch.hidden.size(); ++i) {
    const int32_t source = batch.hidden[i];
    kept.push_back(std::max(source, DraftBatch::kNoHidden) + 1);
    if (source >= DraftBatch::kNoHidden) continue;
    tail_rows.push_back(static_cast<int32_t>(i));
    tail_pages.push_back(DraftBatch::FromTail(source));
  }
  if (hidden_.data == nullptr || hidden_.dtype != dtype ||
      *std::max_element(kept.begin(), kept.end()) >= hidden_.dim(0)) {
    return InvalidArgument("drafting wants hidden states that the last step did not keep");
  }
  QUERN_ASSIGN(const Tensor g, Gather(hidden_, kept, scratch_));
  if (tail_rows.empty()) return g;
  QUERN_ASSIGN(const Tensor tails, Gather(kv.tails, tail_pages, scratch_));
  QUERN_ASSIGN(const Tensor where, Upload(tail_rows));
  QUERN_TRY(be_.ScatterRows({.x = tails, .rows = where, .y = g}));
  return g;
}

Status GlmModel::Draft(const DraftBatch& batch, const KvView& kv, std::vector<float>& logits) {
  if (mtp_.empty()) return Model::Draft(batch, kv, logits);
  QUERN_TRY(Check(batch.rows));
  if (batch.hidden.size() != batch.rows.tokens.size()) {
    return InvalidArgument("a draft pass of {} rows and {} hidden states", batch.rows.tokens.size(),
                           batch.hidden.size());
  }
  Scratch::Frame frame(scratch_);
  QUERN_ASSIGN(Step step, Begin(batch.rows));
  QUERN_ASSIGN(const Tensor ids, Upload(batch.rows.tokens));
  QUERN_ASSIGN(const Tensor e, scratch_.Take(step.activation, {step.tokens, config_.hidden_size}));
  QUERN_TRY(be_.Embed({.table = *embed_, .ids = ids, .y = e}));
  QUERN_ASSIGN(const Tensor g, PreviousHidden(batch, kv, step.activation));
  QUERN_ASSIGN(const Tensor r, scratch_.Take(step.activation, {step.tokens, config_.hidden_size}));
  QUERN_TRY(mtp_[0].Forward(step, kv.layers[static_cast<size_t>(config_.num_layers)], e, g, r));

  kept_draft_.reset();
  kept_draft_.emplace(kept_);
  draft_ = DraftState{.sparse = step.sparse};
  const std::vector<int32_t>& rows = batch.rows.logit_rows;
  logits.clear();
  if (rows.empty()) return OkStatus();  // only keys were due
  for (int32_t row : rows) {
    draft_.positions.push_back(batch.rows.positions[static_cast<size_t>(row)]);
    draft_.sequences.push_back(batch.rows.sequences[static_cast<size_t>(row)]);
  }
  QUERN_ASSIGN(draft_.recycled, Gather(r, rows, kept_));
  if (step.sparse) {
    QUERN_ASSIGN(draft_.selected, GatherSelection(step.selected, rows));
  }
  const Tensor& tables = step.batch.page_tables;
  QUERN_ASSIGN(draft_.page_tables, kept_.Take(Dtype::kI32, {tables.dim(0), tables.dim(1)}));
  QUERN_TRY(be_.CopyToDevice(batch.rows.page_tables.data(), draft_.page_tables));
  return Head(draft_.recycled, logits);
}

Status GlmModel::DraftNext(std::span<const int32_t> rows, std::span<const int32_t> tokens,
                           const KvView& kv, std::vector<float>& logits) {
  if (rows.empty() || rows.size() != tokens.size() || !kept_draft_) {
    return InvalidArgument("the next draft of {} rows with {} tokens", rows.size(), tokens.size());
  }
  Scratch::Frame frame(scratch_);
  const std::vector<int32_t> from(rows.begin(), rows.end());
  DraftState next{
      .page_tables = draft_.page_tables, .sparse = draft_.sparse, .depth = draft_.depth + 1};
  std::vector<int32_t> rotated;
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t row = static_cast<size_t>(rows[i]);
    if (row >= draft_.positions.size() || tokens[i] < 0 || tokens[i] >= config_.vocab_size) {
      return InvalidArgument("draft of token {} behind row {}: {} rows, vocabulary of {}",
                             tokens[i], rows[i], draft_.positions.size(), config_.vocab_size);
    }
    next.positions.push_back(draft_.positions[row]);
    next.sequences.push_back(draft_.sequences[row]);
    rotated.push_back(draft_.positions[row] + next.depth);
  }
  const int64_t count = static_cast<int64_t>(rows.size());
  Step step(be_, scratch_, config_, count);
  // Queries stand where their token does; what they see ends with the settled keys.
  QUERN_ASSIGN(const Tensor at, Upload(rotated));
  QUERN_ASSIGN(step.rope, RopeTable(at));
  QUERN_ASSIGN(step.batch.positions, Upload(next.positions));
  QUERN_ASSIGN(step.batch.sequences, Upload(next.sequences));
  step.batch.page_tables = next.page_tables;
  step.reads_only = true;
  step.sparse = next.sparse;
  if (next.sparse) {
    QUERN_ASSIGN(next.selected, GatherSelection(draft_.selected, from));
    step.selected = next.selected;
  }
  QUERN_ASSIGN(const Tensor ids, Upload({tokens.begin(), tokens.end()}));
  QUERN_ASSIGN(const Tensor e, scratch_.Take(step.activation, {count, config_.hidden_size}));
  QUERN_TRY(be_.Embed({.table = *embed_, .ids = ids, .y = e}));
  QUERN_ASSIGN(const Tensor g, Gather(draft_.recycled, from, scratch_));
  QUERN_ASSIGN(next.recycled, kept_.Take(step.activation, {count, config_.hidden_size}));
  QUERN_TRY(mtp_[0].Forward(step, kv.layers[static_cast<size_t>(config_.num_layers)], e, g,
                            next.recycled));
  draft_ = std::move(next);
  return Head(draft_.recycled, logits);
}

}  // namespace

Result<std::unique_ptr<Model>> LoadGlm(const checkpoint::ModelConfig& config, WeightLoader& loader,
                                       backend::Backend& backend) {
  auto model = std::make_unique<GlmModel>(config, backend);
  QUERN_TRY(model->Load(loader));
  return std::unique_ptr<Model>(std::move(model));
}

}  // namespace quern::model
