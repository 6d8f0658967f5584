#include "quern/backend/cpu/cpu_backend.h"

#include <cstring>
#include <optional>

#include "quern/backend/cpu/attention.h"
#include "quern/backend/cpu/cpu_weights.h"
#include "quern/backend/cpu/gemm.h"
#include "quern/backend/cpu/int_gemm.h"
#include "quern/backend/cpu/rows.h"
#include "quern/backend/host/host_memory.h"
#include "quern/backend/ops/load.h"
#include "quern/backend/ref/ref_ops.h"
#include "quern/numerics/fp8_group.h"

namespace quern::backend {
namespace cpu {
namespace {

using host::I32;
using host::RowPtr;
using host::RowVoid;

// Host memory that only grows; contents are not kept.
class GrowingBuffer {
 public:
  Result<float*> Floats(int64_t count) {
    const int64_t bytes = count * static_cast<int64_t>(sizeof(float));
    if (buffer_ == nullptr || buffer_->bytes() < bytes) {
      QUERN_ASSIGN(buffer_, host::AllocateHost(bytes));
    }
    return static_cast<float*>(buffer_->data());
  }

 private:
  std::unique_ptr<Buffer> buffer_;
};

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(int num_threads)
      : pool_(num_threads > 0 ? num_threads : ThreadPool::DefaultNumThreads()) {}

  std::string name() const override { return "cpu"; }
  int num_threads() const override { return pool_.num_threads(); }
  int64_t bytes_read() const override { return bytes_read_; }
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
    auto w = std::make_unique<CpuLinear>();
    for (const StoredMatrix& part : parts) {
      QUERN_ASSIGN(CpuMatrix m, PackFor(part, as));
      w->parts.push_back(std::move(m));
    }
    return std::unique_ptr<LinearWeights>(std::move(w));
  }

  Result<std::unique_ptr<ExpertWeights>> LoadExperts(
      std::span<const std::span<const StoredMatrix>> experts, LoadAs as) override {
    QUERN_TRY(ValidateExperts(experts));
    auto w = std::make_unique<CpuExperts>();
    w->parts_per_expert = static_cast<int64_t>(experts.front().size());
    for (auto parts : experts) {
      for (const StoredMatrix& part : parts) {
        QUERN_ASSIGN(CpuMatrix m, PackFor(part, as));
        w->parts.push_back(std::move(m));
      }
    }
    return std::unique_ptr<ExpertWeights>(std::move(w));
  }

  Result<std::unique_ptr<HeadWeights>> LoadHeads(const StoredMatrix& stored, int64_t num_heads,
                                                 int64_t head_rows, int64_t first, int64_t count,
                                                 bool transpose) override {
    QUERN_TRY(ValidateHeads(stored, num_heads, head_rows, first, count));
    auto w = std::make_unique<CpuHeads>();
    // Scale blocks need not align with a head's rows, so scaled formats are kept decoded, in f32:
    // re-quantizing them would add an error of its own.
    const bool as_bf16 = stored.format == WeightFormat::kBf16;
    std::vector<float> row(static_cast<size_t>(stored.cols));
    std::vector<float> values(static_cast<size_t>(count * stored.cols));
    for (int64_t h = 0; h < num_heads; ++h) {
      for (int64_t r = 0; r < count; ++r) {
        DecodeRow(stored, h * head_rows + first + r, row.data());
        for (int64_t c = 0; c < stored.cols; ++c) {
          values[static_cast<size_t>(transpose ? c * count + r : r * stored.cols + c)] =
              row[static_cast<size_t>(c)];
        }
      }
      const int64_t rows = transpose ? stored.cols : count, cols = transpose ? count : stored.cols;
      QUERN_ASSIGN(PackedMatrix m, PackRows(rows, cols, as_bf16, values.data()));
      w->heads.push_back(std::move(m));
    }
    return std::unique_ptr<HeadWeights>(std::move(w));
  }

  Result<std::unique_ptr<TableWeights>> LoadTable(const StoredMatrix& stored) override {
    QUERN_TRY(ValidateStored(stored));
    if (stored.scales != nullptr)
      return Unimplemented("an embedding table stored as {}", WeightFormatName(stored.format));
    auto w = std::make_unique<CpuTable>();
    w->stored = stored;
    const int64_t row_bytes = PackedRowBytes(stored.format, stored.cols);
    QUERN_ASSIGN(w->codes, host::AllocateHost(stored.rows * row_bytes));
    auto* codes = static_cast<std::byte*>(w->codes->data());
    for (int64_t r = 0; r < stored.rows; ++r) {
      std::memcpy(codes + r * row_bytes, stored.data + r * stored.row_bytes,
                  static_cast<size_t>(row_bytes));
    }
    w->stored.data = codes;
    w->stored.row_bytes = row_bytes;
    return std::unique_ptr<TableWeights>(std::move(w));
  }

  ComputeChoice Choose(WeightFormat format, LoadAs as) const override {
    const ComputeFormat compute = ComputeFormatOf(format, as);
    ComputeChoice choice{DescribeCompute(format, as), "gemm, panels of 16 rows", 0};
    if (compute == ComputeFormat::kInt8 || compute == ComputeFormat::kMxfp4Int8) {
      const IntCodes codes = compute == ComputeFormat::kInt8 ? IntCodes::kInt8 : IntCodes::kE2M1;
      choice.kernel = "integer gemm, panels of 16 rows";
      choice.bytes_per_weight =
          static_cast<double>(GroupCodeBytes(codes) + GroupScaleBytes(codes)) /
          (kIntGroup * kPanelRows);
      return choice;
    }
    if (compute == ComputeFormat::kFp8) {
      choice.bytes_per_weight = 1 + 4.0 / kFp8Group;
      return choice;
    }
    const Packing p = PackingOf(format);
    const double code_bits = p.codes == Codes::kF32    ? 32
                             : p.codes == Codes::kBf16 ? 16
                             : p.codes == Codes::kE4M3 ? 8
                                                       : 4;
    const double scale_bits = format == WeightFormat::kMxfp4   ? 8.0 / 32
                              : format == WeightFormat::kNvfp4 ? 32.0 / 16
                                                               : 0;
    choice.bytes_per_weight = (code_bits + scale_bits) / 8;
    return choice;
  }

  Status Linear(const LinearArgs& a) override {
    QUERN_TRY(Validate(a));
    const auto& w = static_cast<const CpuLinear&>(a.w);
    ProductList list;
    AddProducts(w.parts, 0, a.x.dim(0), a.y, list);
    return RunProducts(list, a.x);
  }

  Status HeadLinear(const HeadLinearArgs& a) override {
    QUERN_TRY(Validate(a));
    const auto& w = static_cast<const CpuHeads&>(a.w);
    bytes_read_ += w.bytes();
    std::vector<GemmTask> tasks;
    const int64_t tokens = a.x.dim(0), heads = w.num_heads(), cols = w.cols();
    QUERN_ASSIGN(float* x, activations_.Floats(tokens * heads * cols));
    pool_.ParallelFor(tokens, [&](int64_t t, int) {
      for (int64_t h = 0; h < heads; ++h)
        RowToF32(a.x.dtype, RowVoid(a.x, t, h), cols, x + (t * heads + h) * cols);
    });
    for (int64_t h = 0; h < heads; ++h) {
      tasks.push_back({&w.heads[static_cast<size_t>(h)], x + h * cols, heads * cols, tokens,
                       RowVoid(a.y, 0, h), a.y.stride(0), a.y.dtype});
    }
    return RunTasks(tasks, {});
  }

  Status MoeGemm(const MoeGemmArgs& a) override {
    QUERN_TRY(Validate(a));
    const auto& w = static_cast<const CpuExperts&>(a.w);
    ProductList list;
    for (int64_t e = 0; e < w.num_experts(); ++e) {
      const int64_t begin = I32(a.routes.offsets, e), rows = I32(a.routes.offsets, e + 1) - begin;
      if (rows == 0) continue;
      const auto parts = std::span(w.parts).subspan(static_cast<size_t>(e * w.parts_per_expert),
                                                    static_cast<size_t>(w.parts_per_expert));
      AddProducts(parts, begin, rows, a.y, list);
    }
    return RunProducts(list, a.x);
  }

  Status Embed(const EmbedArgs& a) override {
    QUERN_TRY(Validate(a));
    const auto& table = static_cast<const CpuTable&>(a.table);
    const int64_t n = table.cols();
    for (int64_t t = 0; t < a.ids.dim(0); ++t) {
      if (I32(a.ids, t) < 0 || I32(a.ids, t) >= table.rows())
        return InvalidArgument("Embed: token id {} of {}", I32(a.ids, t), table.rows());
    }
    QUERN_ASSIGN(float* scratch, workers_.Floats(n * pool_.num_threads()));
    pool_.ParallelFor(a.ids.dim(0), [&](int64_t t, int worker) {
      float* row = scratch + worker * n;
      DecodeRow(table.stored, I32(a.ids, t), row);
      StoreRowAs(row, n, a.y.dtype, RowVoid(a.y, t));
    });
    return OkStatus();
  }

  Status RmsNorm(const RmsNormArgs& a) override {
    QUERN_TRY(Validate(a));
    const int64_t n = a.x.dim(1);
    QUERN_ASSIGN(float* scratch, workers_.Floats(n * pool_.num_threads()));
    pool_.ParallelFor(a.x.dim(0), [&](int64_t t, int worker) {
      RmsNormRow(a.x.dtype, RowVoid(a.x, t), static_cast<const float*>(a.weight.data), a.eps, n,
                 a.y.dtype, RowVoid(a.y, t), scratch + worker * n);
    });
    return OkStatus();
  }
  Status Add(const AddArgs& a) override {
    QUERN_TRY(Validate(a));
    pool_.ParallelFor(a.x.dim(0), [&](int64_t t, int) {
      AddRow(a.x.dtype, RowVoid(a.x, t), a.x.dim(1), a.y.dtype, RowVoid(a.y, t));
    });
    return OkStatus();
  }
  Status SwiGlu(const SwiGluArgs& a) override {
    QUERN_TRY(Validate(a));
    pool_.ParallelFor(a.y.dim(0), [&](int64_t r, int) {
      SwiGluRow(a.y.dtype, RowVoid(a.gate_up, r), a.y.dim(1), RowVoid(a.y, r));
    });
    return OkStatus();
  }
  Status Combine(const CombineArgs& a) override {
    QUERN_TRY(Validate(a));
    const int64_t n = a.y.dim(1);
    QUERN_ASSIGN(float* scratch, workers_.Floats(n * pool_.num_threads()));
    pool_.ParallelFor(a.y.dim(0), [&](int64_t t, int worker) {
      float* acc = scratch + worker * n;
      std::fill(acc, acc + n, 0.0f);
      for (int64_t s = 0; s < a.routes.experts.dim(1); ++s) {
        AccumulateRow(a.rows.dtype, RowVoid(a.rows, I32(a.routes.row_of, t, s)),
                      RowPtr<float>(a.routes.weights, t)[s], n, acc);
      }
      StoreRowAs(acc, n, a.y.dtype, RowVoid(a.y, t));
    });
    return OkStatus();
  }

  Status IndexSelect(const IndexSelectArgs& a) override;
  Status MlaAttention(const MlaAttentionArgs& a) override;

  // Memory moves and small loops: the reference, with its rows dealt out to the threads.
  Status LayerNorm(const LayerNormArgs& a) override {
    return RunRows(a, a.x.dim(0), 16, ref::LayerNorm,
                   [](LayerNormArgs& part, int64_t begin, int64_t n) {
                     part.x = part.x.Rows(begin, n), part.y = part.y.Rows(begin, n);
                   });
  }
  Status RopeTable(const RopeTableArgs& a) override {
    return RunRows(a, a.positions.dim(0), 64, ref::RopeTable,
                   [](RopeTableArgs& part, int64_t begin, int64_t n) {
                     part.positions = part.positions.Rows(begin, n),
                     part.out = part.out.Rows(begin, n);
                   });
  }
  Status Rope(const RopeArgs& a) override {
    return RunRows(a, a.x.dim(0), 4, ref::Rope, [](RopeArgs& part, int64_t begin, int64_t n) {
      part.x = part.x.Rows(begin, n), part.y = part.y.Rows(begin, n);
      part.table = part.table.Rows(begin, n);
    });
  }
  Status GatherRows(const GatherRowsArgs& a) override {
    return RunRows(a, a.rows.dim(0), 16, ref::GatherRows,
                   [](GatherRowsArgs& part, int64_t begin, int64_t n) {
                     part.rows = part.rows.Rows(begin, n), part.y = part.y.Rows(begin, n);
                   });
  }
  Status ScatterRows(const ScatterRowsArgs& a) override { return Run(a, ref::ScatterRows); }
  Status CacheWrite(const CacheWriteArgs& a) override { return Run(a, ref::CacheWrite); }
  Status Route(const RouteArgs& a) override {
    QUERN_TRY(Validate(a));
    return ref::Route(a);
  }

 private:
  struct Activations {
    const float* data;
    int64_t stride;
  };

  template <typename Args>
  static Status Run(const Args& args, void (*op)(const Args&)) {
    QUERN_TRY(Validate(args));
    op(args);
    return OkStatus();
  }

  // Runs `op` on `step` rows at a time, in parallel; `cut(part, begin, n)` narrows the arguments.
  template <typename Args, typename Cut>
  Status RunRows(const Args& args, int64_t rows, int64_t step, void (*op)(const Args&),
                 const Cut& cut) {
    QUERN_TRY(Validate(args));
    pool_.ParallelFor((rows + step - 1) / step, [&](int64_t i, int) {
      Args part = args;
      cut(part, i * step, std::min(step, rows - i * step));
      op(part);
    });
    return OkStatus();
  }

  // x [rows, n] as f32 rows: a view when it is f32 already.
  Result<Activations> ToFloats(const Tensor& x) {
    if (x.dtype == Dtype::kF32) return Activations{static_cast<const float*>(x.data), x.stride(0)};
    const int64_t n = x.dim(1);
    QUERN_ASSIGN(float* out, activations_.Floats(x.dim(0) * n));
    pool_.ParallelFor(x.dim(0),
                      [&](int64_t t, int) { RowToF32(x.dtype, RowVoid(x, t), n, out + t * n); });
    return Activations{out, n};
  }

  Result<CpuMatrix> PackFor(const StoredMatrix& stored, LoadAs as) {
    switch (ComputeFormatOf(stored.format, as)) {
      case ComputeFormat::kMxfp4Int8:
      case ComputeFormat::kInt8: {
        QUERN_ASSIGN(IntMatrix m, PackInts(stored, pool_));
        return CpuMatrix(std::move(m));
      }
      case ComputeFormat::kFp8: {
        QUERN_ASSIGN(PackedMatrix m, PackAsFp8(stored, pool_));
        return CpuMatrix(std::move(m));
      }
      case ComputeFormat::kStored:
        break;
    }
    QUERN_ASSIGN(PackedMatrix m, Pack(stored, pool_));
    return CpuMatrix(std::move(m));
  }

  // The products of one op, before x has been brought into the form each of them reads.
  struct ProductList {
    std::vector<GemmTask> floats;
    std::vector<int64_t> float_rows;  // first row of x of each
    std::vector<IntGemmTask> ints;
    std::vector<std::pair<size_t, size_t>> int_tiles;  // [first, last) tile of each
    std::vector<IntTile> tiles;
    int64_t tile_bytes = 0;
  };

  // Adds rows [first, first + rows) of x against the stacked parts, to those rows of y.
  void AddProducts(std::span<const CpuMatrix> parts, int64_t first, int64_t rows, const Tensor& y,
                   ProductList& list) {
    int64_t column = 0;
    std::optional<size_t> first_tile;  // all integer parts share them: they have the same k
    for (const CpuMatrix& part : parts) {
      const Tensor to = y.Columns(column, part.rows());
      column += part.rows();
      bytes_read_ += part.bytes();
      if (const PackedMatrix* packed = part.packed()) {
        list.floats.push_back({packed, nullptr, 0, rows, RowVoid(to, first), y.stride(0), y.dtype});
        list.float_rows.push_back(first);
        continue;
      }
      if (!first_tile) {
        first_tile = list.tiles.size();
        AppendTiles(first, rows, part.ints()->groups(), list.tiles, list.tile_bytes);
      }
      list.ints.push_back({part.ints(), {}, nullptr, to.data, y.stride(0), y.dtype});
      list.int_tiles.emplace_back(*first_tile, list.tiles.size());
    }
  }

  Status RunProducts(ProductList& list, const Tensor& x) {
    if (!list.floats.empty()) {
      QUERN_ASSIGN(const Activations floats, ToFloats(x));
      for (size_t i = 0; i < list.floats.size(); ++i) {
        list.floats[i].x = floats.data + list.float_rows[i] * floats.stride;
        list.floats[i].x_stride = floats.stride;
      }
    }
    if (!list.ints.empty()) {
      QUERN_ASSIGN(const uint8_t* bytes, Quantize(x, list.tiles, list.tile_bytes));
      for (size_t i = 0; i < list.ints.size(); ++i) {
        const auto [first, last] = list.int_tiles[i];
        list.ints[i].x = bytes;
        list.ints[i].tiles = std::span(list.tiles).subspan(first, last - first);
      }
    }
    return RunTasks(list.floats, list.ints);
  }

  // All tiles of x, quantized. A few rows are done before other threads would have woken up.
  Result<const uint8_t*> Quantize(const Tensor& x, const std::vector<IntTile>& tiles,
                                  int64_t bytes) {
    constexpr int64_t kChunk = 64, kElementsAlone = 32 << 10;
    QUERN_ASSIGN(float* floats, tiles_.Floats((bytes + 3) / 4));
    auto* out = reinterpret_cast<uint8_t*>(floats);
    const int64_t groups = (x.dim(1) + kIntGroup - 1) / kIntGroup;
    const int64_t chunks = (groups + kChunk - 1) / kChunk;
    const auto chunk = [&](int64_t i, int) {
      const IntTile& tile = tiles[static_cast<size_t>(i / chunks)];
      const int64_t first = i % chunks * kChunk;
      QuantizeTile(x, tile, first, std::min(kChunk, groups - first), out + tile.offset);
    };
    const int64_t count = static_cast<int64_t>(tiles.size()) * chunks;
    if (x.dim(0) * x.dim(1) > kElementsAlone) {
      pool_.ParallelFor(count, chunk);
    } else {
      for (int64_t i = 0; i < count; ++i) chunk(i, 0);
    }
    return out;
  }

  // All items of all products in one parallel loop: one fork and join however many experts are hit.
  Status RunTasks(const std::vector<GemmTask>& floats, const std::vector<IntGemmTask>& ints) {
    struct Item {
      int32_t task, item;
    };
    std::vector<Item> items;  // tasks past floats.size() are integer ones
    int64_t scratch_floats = floats.empty() ? 0 : kGemmScratchFloats;
    const auto add = [&](int64_t count) {
      const int32_t task = items.empty() ? 0 : items.back().task + 1;
      for (int64_t j = 0; j < count; ++j) items.push_back({task, static_cast<int32_t>(j)});
    };
    for (const GemmTask& task : floats) add(NumGemmItems(*task.w));
    for (const IntGemmTask& task : ints) {
      add(NumIntItems(*task.w));
      scratch_floats = std::max(scratch_floats, (IntScratchBytes(task) + 63) / 64 * 16);
    }
    QUERN_ASSIGN(float* scratch, workers_.Floats(scratch_floats * pool_.num_threads()));
    pool_.ParallelFor(static_cast<int64_t>(items.size()), [&](int64_t i, int worker) {
      const Item at = items[static_cast<size_t>(i)];
      const size_t task = static_cast<size_t>(at.task);
      float* own = scratch + worker * scratch_floats;
      if (task < floats.size()) return RunGemmItem(floats[task], at.item, own);
      RunIntItem(ints[task - floats.size()], at.item, reinterpret_cast<uint8_t*>(own));
    });
    return OkStatus();
  }

  // Keys of a row's whole context, once per sequence: its last row sees the most.
  static int64_t ContextKeys(const BatchView& batch) {
    const int64_t rows = batch.positions.dim(0);
    int64_t keys = 0;
    for (int64_t t = 0; t < rows; ++t) {
      if (t + 1 == rows || I32(batch.sequences, t + 1) != I32(batch.sequences, t))
        keys += I32(batch.positions, t) + 1;
    }
    return keys;
  }

  int64_t bytes_read_ = 0;
  ThreadPool pool_;
  GrowingBuffer activations_, tiles_, workers_, scores_;
};

Status CpuBackend::MlaAttention(const MlaAttentionArgs& a) {
  QUERN_TRY(Validate(a));
  int64_t keys = 0;
  if (a.selection == nullptr) {
    keys = ContextKeys(a.batch);
  } else {
    for (int64_t t = 0; t < a.q.dim(0); ++t) keys += I32(a.selection->counts, t);
  }
  bytes_read_ += keys * a.cache.dim(2) * DtypeBytes(a.cache.dtype);
  const int64_t panels = (a.q.dim(1) + 15) / 16;
  const int64_t floats = AttentionScratchFloats(a.q.dim(2), a.y.dim(2)) / 16 * 16;
  QUERN_ASSIGN(float* scratch, workers_.Floats(floats * pool_.num_threads()));
  pool_.ParallelFor(a.q.dim(0) * panels, [&](int64_t i, int worker) {
    AttendPanel(a, i / panels, i % panels, scratch + worker * floats);
  });
  return OkStatus();
}

Status CpuBackend::IndexSelect(const IndexSelectArgs& a) {
  QUERN_TRY(Validate(a));
  bytes_read_ += ContextKeys(a.batch) * a.keys.dim(2) * DtypeBytes(a.keys.dtype);
  const int64_t tokens = a.q.dim(0), top_k = a.out.positions.dim(1);
  const int64_t panels = (a.q.dim(1) + 15) / 16;
  const int64_t floats = AttentionScratchFloats(a.q.dim(2) * panels + kPageTokens, 0) / 16 * 16;
  QUERN_ASSIGN(float* scratch, workers_.Floats(floats * pool_.num_threads()));
  int64_t longest = 0;
  for (int64_t t = 0; t < tokens; ++t)
    longest = std::max<int64_t>(longest, I32(a.batch.positions, t) + 1);
  // Scores of a block of rows at a time, so that long contexts need no [tokens, context] array.
  constexpr int64_t kBlockRows = 16, kChunkKeys = 1024;
  QUERN_ASSIGN(float* scores,
               scores_.Floats(2 * kBlockRows * longest));  // second half: the selection's scratch
  auto* order = reinterpret_cast<int32_t*>(scores + kBlockRows * longest);
  const int64_t chunks = (longest + kChunkKeys - 1) / kChunkKeys;
  for (int64_t first = 0; first < tokens; first += kBlockRows) {
    const int64_t rows = std::min(kBlockRows, tokens - first);
    pool_.ParallelFor(rows * chunks, [&](int64_t i, int worker) {
      const int64_t row = i / chunks, begin = i % chunks * kChunkKeys;
      const int64_t count = I32(a.batch.positions, first + row) + 1;
      if (count <= top_k || begin >= count)
        return;  // everything is selected: scores would not be read
      IndexScores(a, first + row, begin, std::min(begin + kChunkKeys, count),
                  scores + row * longest + begin, scratch + worker * floats);
    });
    pool_.ParallelFor(rows, [&](int64_t row, int) {
      const int64_t t = first + row;
      static_cast<int32_t*>(a.out.counts.data)[t] = static_cast<int32_t>(
          ref::SelectTopK(scores + row * longest, I32(a.batch.positions, t) + 1, top_k,
                          order + row * longest, RowPtr<int32_t>(a.out.positions, t)));
    });
  }
  return OkStatus();
}

}  // namespace
}  // namespace cpu

std::unique_ptr<Backend> CreateCpuBackend(int num_threads) {
  return std::make_unique<cpu::CpuBackend>(num_threads);
}

}  // namespace quern::backend
