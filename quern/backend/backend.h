// What the model calls. A backend is a folder that implements this interface; ops/ says what each
// call means, ref/ says it in plain loops, and ops/*_test.cc holds every backend to ref/, bit for
// bit.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "quern/backend/ops/attention.h"
#include "quern/backend/ops/linear.h"
#include "quern/backend/ops/moe.h"
#include "quern/backend/ops/norm.h"
#include "quern/backend/ops/rope.h"
#include "quern/backend/tensor.h"
#include "quern/backend/weights.h"
#include "quern/base/status.h"
#include "quern/numerics/stored_matrix.h"

namespace quern::backend {

// Device memory; freed with the object.
class Buffer {
 public:
  virtual ~Buffer() = default;
  void* data() const { return data_; }  // device address
  int64_t bytes() const { return bytes_; }

 protected:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Calls come from one thread at a time. Ops may run asynchronously on a device, in the order
// called; CopyToHost waits for what was called before it. Buffers and weights must not outlive
// their backend.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string name() const = 0;  // "cpu", "ref"
  virtual int num_threads() const = 0;
  // Bytes of weights and keys that the ops so far could not do without reading: each matrix once
  // per op, of the experts those with rows, each key once per sequence or once per row that chose
  // it. Divided by time, the share of the memory's bandwidth that was put to use. 0 where a backend
  // does not count.
  virtual int64_t bytes_read() const { return 0; }

  // Zeroed memory, aligned to at least 64 bytes. kResourceExhausted when there is none.
  virtual Result<std::unique_ptr<Buffer>> Allocate(int64_t bytes) = 0;
  // `host` holds dst.bytes() bytes; dst is contiguous.
  virtual Status CopyToDevice(const void* host, const Tensor& dst) = 0;
  virtual Status CopyToHost(const Tensor& src, void* host) = 0;

  // Repack stored matrices into the order the kernels read. The views' bytes are not needed
  // afterwards. `parts` share x; their rows are stacked: y has the first part's columns first. Each
  // part's compute format is ComputeFormatOf(its format, as).
  virtual Result<std::unique_ptr<LinearWeights>> LoadLinear(std::span<const StoredMatrix> parts,
                                                            LoadAs as) = 0;
  // experts[e] holds the parts of expert e, stacked as above; all experts alike in shape.
  virtual Result<std::unique_ptr<ExpertWeights>> LoadExperts(
      std::span<const std::span<const StoredMatrix>> experts, LoadAs as) = 0;
  // Head h uses rows [h * head_rows + first, + count) of `stored` ([heads * head_rows, cols]): W_h
  // itself when not `transpose` ([count, cols]), else its transpose ([cols, count]). Always
  // computed as kStored.
  virtual Result<std::unique_ptr<HeadWeights>> LoadHeads(const StoredMatrix& stored,
                                                         int64_t num_heads, int64_t head_rows,
                                                         int64_t first, int64_t count,
                                                         bool transpose) = 0;
  virtual Result<std::unique_ptr<TableWeights>> LoadTable(const StoredMatrix& stored) = 0;
  // How LoadLinear and LoadExperts will compute with this format.
  virtual ComputeChoice Choose(WeightFormat format, LoadAs as) const = 0;

  virtual Status Embed(const EmbedArgs& args) = 0;
  virtual Status RmsNorm(const RmsNormArgs& args) = 0;
  virtual Status LayerNorm(const LayerNormArgs& args) = 0;
  virtual Status Add(const AddArgs& args) = 0;
  virtual Status Linear(const LinearArgs& args) = 0;
  virtual Status HeadLinear(const HeadLinearArgs& args) = 0;
  virtual Status RopeTable(const RopeTableArgs& args) = 0;
  virtual Status Rope(const RopeArgs& args) = 0;
  virtual Status CacheWrite(const CacheWriteArgs& args) = 0;
  virtual Status IndexSelect(const IndexSelectArgs& args) = 0;
  virtual Status MlaAttention(const MlaAttentionArgs& args) = 0;
  virtual Status Route(const RouteArgs& args) = 0;
  virtual Status GatherRows(const GatherRowsArgs& args) = 0;
  virtual Status ScatterRows(const ScatterRowsArgs& args) = 0;
  virtual Status MoeGemm(const MoeGemmArgs& args) = 0;
  virtual Status SwiGlu(const SwiGluArgs& args) = 0;
  virtual Status Combine(const CombineArgs& args) = 0;
};

}  // namespace quern::backend
