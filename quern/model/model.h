// A loaded model: weights on a backend and the forward pass over one ragged batch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quern/backend/tensor.h"
#include "quern/base/status.h"
#include "quern/checkpoint/config.h"

namespace quern::backend {
class Backend;
}

namespace quern::model {

// What one page of the KV cache must hold. Layer i of `layers` is decoder layer i; the MTP layer,
// if any, is last. Dimensions count elements of `dtype` as stored (see KeyRowElements).
struct KvLayout {
  struct Layer {
    int64_t latent_dim = 0;     // of a row of kv_lora_rank + qk_rope_head_dim elements
    int64_t index_key_dim = 0;  // of an index key; 0 on layers without an indexer of their own
  };
  Dtype dtype = Dtype::kBf16;
  std::vector<Layer> layers;
  // Hidden state of the page's last position, from which drafting goes on behind a shared page; 0
  // without an MTP layer.
  int64_t tail_dim = 0;
  Dtype tail_dtype = Dtype::kBf16;

  int64_t bytes_per_page() const;
  int64_t bytes_per_token() const;  // without the tail
};

// How keys are stored. Less than what activations hold (kAuto) changes the tokens a little, and
// fits more of them.
enum class KvDtype {
  kAuto,  // as activations: bf16, or f32 for models in f32
  kBf16,
  kFp8,     // E4M3 with a scale per 128 elements, rope keys in bf16
  kFp8Raw,  // E4M3 with scale 1
};

struct KvOptions {
  bool with_mtp = true;  // what drafting needs as well, when the model has an MTP layer
  KvDtype dtype = KvDtype::kAuto;
};
KvLayout MakeKvLayout(const checkpoint::ModelConfig& config, const KvOptions& options = {});

// The pools of the cache, lent by their owner for a step. Each is [pages, 64, dim]; index_keys is
// empty (data == nullptr) where the layout has none.
struct KvView {
  struct Layer {
    backend::Tensor latent, index_keys;
  };
  std::vector<Layer> layers;
  backend::Tensor tails;  // [pages, hidden], or empty
};

// One ragged batch, in host memory: rows of any number of sequences. Rows of a sequence are
// consecutive and in ascending position; earlier positions are in the cache.
struct StepBatch {
  std::vector<int32_t> tokens;       // [rows] token ids
  std::vector<int32_t> positions;    // [rows]
  std::vector<int32_t> sequences;    // [rows] row of page_tables
  std::vector<int32_t> page_tables;  // [sequences, max_pages] pool pages
  int64_t max_pages = 0;
  std::vector<int32_t> logit_rows;  // rows whose logits are wanted, ascending
  // Keep the rows' hidden states for Model::Draft until the next Forward, and those of a page's
  // last position in KvView::tails.
  bool keep_hidden = false;
};

// One pass of the MTP layer over rows whose tokens are settled (see parts/mtp.h). `logit_rows` are
// the rows to draft behind: their logits speak of the token after rows.tokens[r].
struct DraftBatch {
  StepBatch rows;
  // Where the hidden state of the position before each row is: a row of the last Forward, FromTail
  // of the pool page that ends there, or kNoHidden at position 0.
  static constexpr int32_t kNoHidden = -1;
  static constexpr int32_t FromTail(int32_t page) { return -2 - page; }
  std::vector<int32_t> hidden;  // [rows]
};

// Not thread-safe: one step at a time. The backend must outlive it.
class Model {
 public:
  virtual ~Model() = default;
  virtual const checkpoint::ModelConfig& config() const = 0;
  virtual backend::Backend& backend() const = 0;
  virtual int64_t weight_bytes() const = 0;  // in backend memory
  // Names the weights and how they are computed with (load_choice.h FingerprintOf); empty if nobody
  // set it.
  const std::string& fingerprint() const { return fingerprint_; }
  void set_fingerprint(std::string fingerprint) { fingerprint_ = std::move(fingerprint); }

  // Runs the decoder over the batch, writes its keys to `kv`, and puts the logits of logit_rows,
  // f32 [logit_rows, vocab_size], into `logits`. Row i depends on its own sequence's tokens only,
  // to the bit.
  virtual Status Forward(const StepBatch& batch, const KvView& kv, std::vector<float>& logits) = 0;

  virtual bool has_mtp() const { return false; }
  // Runs the MTP layer over settled rows, writes its keys, and puts the logits [logit_rows,
  // vocab_size] of the first draft into `logits`. Drafts are guesses: nothing here changes what
  // Forward answers. kUnimplemented without an MTP layer.
  virtual Status Draft(const DraftBatch& batch, const KvView& kv, std::vector<float>& logits);
  // The next draft: rows[i] is a row of the logits of the last Draft or DraftNext, tokens[i] what
  // was drafted from it. Reads the settled keys only and writes none. Source: arXiv 2603.12201
  // (indices shared between draft steps).
  virtual Status DraftNext(std::span<const int32_t> rows, std::span<const int32_t> tokens,
                           const KvView& kv, std::vector<float>& logits);

 private:
  std::string fingerprint_;
};

// How weights and activations are multiplied; docs/formats/compute.md has formulas and errors.
enum class DenseFormat {
  kStored,  // weights as stored, activations in their own type
  kInt8,    // int8 groups of 32, made at load where the file has none, times int8 activations
  kFp8,     // unquantized weights made FP8
};
enum class ExpertActivations {
  kAuto,  // int8 where the experts are MXFP4
  kBf16,  // in the activations' own type
  kInt8,  // an error where the experts are not MXFP4
};
struct ComputeOptions {
  DenseFormat dense_format = DenseFormat::kStored;  // of Linear modules outside the routed experts
  ExpertActivations expert_activations = ExpertActivations::kAuto;
};

struct LoadOptions {
  bool strict = false;  // warnings about the checkpoint are errors
  bool trust_signatures =
      false;  // take a tensor's stored format where the dialect's rules say otherwise
  std::optional<float> latent_norm_eps;  // overrides ModelConfig::latent_norm_eps
  ComputeOptions compute;
  std::function<void(uint64_t done_bytes, uint64_t total_bytes)> progress;
};

// Opens the checkpoint at `path`, finds all its problems (one error lists them all), resolves every
// tensor and loads the weights onto `backend`, which must outlive the model. Warnings are appended
// to `warnings`.
Result<std::unique_ptr<Model>> LoadModel(const std::string& path, backend::Backend& backend,
                                         const LoadOptions& options,
                                         std::vector<std::string>& warnings);

}  // namespace quern::model
