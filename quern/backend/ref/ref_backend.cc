#include "quern/backend/ref/ref_backend.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "quern/backend/host/host_memory.h"
#include "quern/backend/ops/load.h"
#include "quern/backend/ref/ref_matrix.h"
#include "quern/backend/ref/ref_ops.h"

namespace quern::backend {
namespace {

using host::LoadF32;
using host::RowVoid;
using host::StoreF32;

// Decoded rows, f32 [rows, cols].
struct DecodedMatrix {
  int64_t rows = 0, cols = 0;
  std::vector<float> values;

  void Append(const StoredMatrix& m) {
    cols = m.cols;
    values.resize(static_cast<size_t>((rows + m.rows) * cols));
    for (int64_t r = 0; r < m.rows; ++r) DecodeRow(m, r, values.data() + (rows + r) * cols);
    rows += m.rows;
  }
  float Dot(Dtype dtype, const void* x, int64_t row) const {
    float sum = 0.0f;
    for (int64_t k = 0; k < cols; ++k) {
      sum = std::fma(LoadF32(dtype, x, k), values[static_cast<size_t>(row * cols + k)], sum);
    }
    return sum;
  }
  int64_t bytes() const { return static_cast<int64_t>(values.size() * sizeof(float)); }
};

using Parts = std::vector<ref::RefMatrix>;  // stacked along rows

int64_t RowsOf(const Parts& parts) {
  int64_t n = 0;
  for (const ref::RefMatrix& m : parts) n += m.rows();
  return n;
}
int64_t BytesOf(const Parts& parts) {
  int64_t n = 0;
  for (const ref::RefMatrix& m : parts) n += m.bytes();
  return n;
}

struct RefLinear : LinearWeights {
  Parts parts;
  int64_t rows() const override { return RowsOf(parts); }
  int64_t cols() const override { return parts.front().cols(); }
  int64_t bytes() const override { return BytesOf(parts); }
};
struct RefExperts : ExpertWeights {
  std::vector<Parts> experts;
  int64_t num_experts() const override { return static_cast<int64_t>(experts.size()); }
  int64_t rows() const override { return RowsOf(experts.front()); }
  int64_t cols() const override { return experts.front().front().cols(); }
  int64_t bytes() const override {
    int64_t n = 0;
    for (const Parts& parts : experts) n += BytesOf(parts);
    return n;
  }
};
struct RefTable : TableWeights {
  DecodedMatrix m;
  int64_t rows() const override { return m.rows; }
  int64_t cols() const override { return m.cols; }
  int64_t bytes() const override { return m.bytes(); }
};
struct RefHeads : HeadWeights {
  std::vector<DecodedMatrix> items;
  int64_t num_heads() const override { return static_cast<int64_t>(items.size()); }
  int64_t rows() const override { return items.front().rows; }
  int64_t cols() const override { return items.front().cols; }
  int64_t bytes() const override { return items.front().bytes() * num_heads(); }
};

class RefBackend : public Backend {
 public:
  std::string name() const override { return "ref"; }
  int num_threads() const override { return 1; }
  Result<std::unique_ptr<Buffer>> Allocate(int64_t bytes) override {
    return host::AllocateHost(bytes);
  }
  Status CopyToDevice(const void* h, const Tensor& dst) override {
    return host::CopyToDeviceHost(h, dst);
  }
  Status CopyToHost(const Tensor& src, void* h) override { return host::CopyToHostHost(src, h); }

  Result<std::unique_ptr<LinearWeights>> LoadLinear(std::span<const StoredMatrix> parts,
                                                    LoadAs as) override {
    QUERN_TRY(ValidateParts(parts));
    auto w = std::make_unique<RefLinear>();
    for (const StoredMatrix& part : parts) w->parts.emplace_back(part, as);
    return std::unique_ptr<LinearWeights>(std::move(w));
  }
  Result<std::unique_ptr<ExpertWeights>> LoadExperts(
      std::span<const std::span<const StoredMatrix>> experts, LoadAs as) override {
    QUERN_TRY(ValidateExperts(experts));
    auto w = std::make_unique<RefExperts>();
    for (auto parts : experts) {
      w->experts.emplace_back();
      for (const StoredMatrix& part : parts) w->experts.back().emplace_back(part, as);
    }
    return std::unique_ptr<ExpertWeights>(std::move(w));
  }
  Result<std::unique_ptr<HeadWeights>> LoadHeads(const StoredMatrix& stored, int64_t num_heads,
                                                 int64_t head_rows, int64_t first, int64_t count,
                                                 bool transpose) override {
    QUERN_TRY(ValidateHeads(stored, num_heads, head_rows, first, count));
    auto w = std::make_unique<RefHeads>();
    std::vector<float> row(static_cast<size_t>(stored.cols));
    for (int64_t h = 0; h < num_heads; ++h) {
      DecodedMatrix m;
      m.rows = transpose ? stored.cols : count;
      m.cols = transpose ? count : stored.cols;
      m.values.resize(static_cast<size_t>(m.rows * m.cols));
      for (int64_t r = 0; r < count; ++r) {
        DecodeRow(stored, h * head_rows + first + r, row.data());
        for (int64_t c = 0; c < stored.cols; ++c) {
          m.values[static_cast<size_t>(transpose ? c * count + r : r * stored.cols + c)] =
              row[static_cast<size_t>(c)];
        }
      }
      w->items.push_back(std::move(m));
    }
    return std::unique_ptr<HeadWeights>(std::move(w));
  }
  Result<std::unique_ptr<TableWeights>> LoadTable(const StoredMatrix& stored) override {
    QUERN_TRY(ValidateStored(stored));
    auto w = std::make_unique<RefTable>();
    w->m.Append(stored);
    return std::unique_ptr<TableWeights>(std::move(w));
  }
  ComputeChoice Choose(WeightFormat format, LoadAs as) const override {
    const ComputeFormat compute = ComputeFormatOf(format, as);
    const bool ints = compute == ComputeFormat::kInt8 || compute == ComputeFormat::kMxfp4Int8;
    return {DescribeCompute(format, as), "plain loops", ints ? 1.0 + 4.0 / 32 : 4.0};
  }

  Status Linear(const LinearArgs& a) override {
    QUERN_TRY(Validate(a));
    const Parts& parts = static_cast<const RefLinear&>(a.w).parts;
    const ref::Int8Rows quantized = ref::QuantizeActivations(a.x);
    for (int64_t t = 0; t < a.x.dim(0); ++t) StackedProduct(parts, a.x, quantized, t, a.y);
    return OkStatus();
  }
  Status HeadLinear(const HeadLinearArgs& a) override {
    QUERN_TRY(Validate(a));
    const auto& items = static_cast<const RefHeads&>(a.w).items;
    for (int64_t t = 0; t < a.x.dim(0); ++t) {
      for (size_t h = 0; h < items.size(); ++h) {
        const int64_t i = static_cast<int64_t>(h);
        Product(items[h], a.x.dtype, RowVoid(a.x, t, i), a.y.dtype, RowVoid(a.y, t, i));
      }
    }
    return OkStatus();
  }
  Status MoeGemm(const MoeGemmArgs& a) override {
    QUERN_TRY(Validate(a));
    const auto& experts = static_cast<const RefExperts&>(a.w).experts;
    const ref::Int8Rows quantized = ref::QuantizeActivations(a.x);
    for (size_t e = 0; e < experts.size(); ++e) {
      const int64_t i = static_cast<int64_t>(e);
      for (int64_t r = host::I32(a.routes.offsets, i); r < host::I32(a.routes.offsets, i + 1);
           ++r) {
        StackedProduct(experts[e], a.x, quantized, r, a.y);
      }
    }
    return OkStatus();
  }
  Status Embed(const EmbedArgs& a) override {
    QUERN_TRY(Validate(a));
    const DecodedMatrix& m = static_cast<const RefTable&>(a.table).m;
    for (int64_t t = 0; t < a.ids.dim(0); ++t) {
      const int64_t id = host::I32(a.ids, t);
      if (id < 0 || id >= m.rows) return InvalidArgument("Embed: token id {} of {}", id, m.rows);
      const float* row = m.values.data() + id * m.cols;
      for (int64_t i = 0; i < m.cols; ++i) StoreF32(a.y.dtype, RowVoid(a.y, t), i, row[i]);
    }
    return OkStatus();
  }

  Status RmsNorm(const RmsNormArgs& a) override { return Run(a, ref::RmsNorm); }
  Status LayerNorm(const LayerNormArgs& a) override { return Run(a, ref::LayerNorm); }
  Status Add(const AddArgs& a) override { return Run(a, ref::Add); }
  Status RopeTable(const RopeTableArgs& a) override { return Run(a, ref::RopeTable); }
  Status Rope(const RopeArgs& a) override { return Run(a, ref::Rope); }
  Status CacheWrite(const CacheWriteArgs& a) override { return Run(a, ref::CacheWrite); }
  Status IndexSelect(const IndexSelectArgs& a) override { return Run(a, ref::IndexSelect); }
  Status MlaAttention(const MlaAttentionArgs& a) override { return Run(a, ref::MlaAttention); }
  Status Route(const RouteArgs& a) override {
    QUERN_TRY(Validate(a));
    return ref::Route(a);
  }
  Status GatherRows(const GatherRowsArgs& a) override { return Run(a, ref::GatherRows); }
  Status ScatterRows(const ScatterRowsArgs& a) override { return Run(a, ref::ScatterRows); }
  Status SwiGlu(const SwiGluArgs& a) override { return Run(a, ref::SwiGlu); }
  Status Combine(const CombineArgs& a) override { return Run(a, ref::Combine); }

 private:
  template <typename Args>
  static Status Run(const Args& args, void (*op)(const Args&)) {
    QUERN_TRY(Validate(args));
    op(args);
    return OkStatus();
  }
  // Row t of x against all parts.
  static void StackedProduct(const Parts& parts, const Tensor& x, const ref::Int8Rows& quantized,
                             int64_t t, const Tensor& y) {
    int64_t column = 0;
    for (const ref::RefMatrix& m : parts) {
      for (int64_t r = 0; r < m.rows(); ++r, ++column) {
        StoreF32(y.dtype, RowVoid(y, t), column, m.Dot(r, x.dtype, RowVoid(x, t), quantized, t));
      }
    }
  }
  static void Product(const DecodedMatrix& m, Dtype x_type, const void* x, Dtype y_type, void* y) {
    for (int64_t r = 0; r < m.rows; ++r) StoreF32(y_type, y, r, m.Dot(x_type, x, r));
  }
};

}  // namespace

std::unique_ptr<Backend> CreateRefBackend() { return std::make_unique<RefBackend>(); }

}  // namespace quern::backend
