// Shape and type checks of every op, shared by all backends.
#include "quern/backend/backend.h"

namespace quern::backend {
namespace {

std::string Describe(const Tensor& t) {
  std::string s = std::string(DtypeName(t.dtype)) + " [";
  for (int i = 0; i < t.rank; ++i) s += (i > 0 ? ", " : "") + std::to_string(t.dim(i));
  return s + "]";
}

// t must have this element type and shape; -1 stands for any size.
Status Expect(const char* op, const char* name, const Tensor& t, std::initializer_list<Dtype> types,
              std::initializer_list<int64_t> shape) {
  bool ok = t.rank == static_cast<int>(shape.size());
  int i = 0;
  for (int64_t want : shape) {
    ok = ok && (want < 0 || t.dim(i) == want);
    ++i;
  }
  bool type_ok = false;
  for (Dtype d : types) type_ok = type_ok || t.dtype == d;
  ok = ok && type_ok && (t.rank == 0 || t.stride(-1) == 1);
  if (ok) return OkStatus();
  std::string want;
  for (int64_t d : shape)
    want += (want.empty() ? "" : ", ") + (d < 0 ? std::string("any") : std::to_string(d));
  return InvalidArgument("{}: {} is {}, want {} [{}]", op, name, Describe(t),
                         DtypeName(*types.begin()), want);
}

Status ExpectActivation(const char* op, const char* name, const Tensor& t,
                        std::initializer_list<int64_t> shape) {
  return Expect(op, name, t, {Dtype::kF32, Dtype::kBf16}, shape);
}

// Rows that are moved, not computed with.
Status ExpectMovable(const char* op, const char* name, const Tensor& t) {
  return Expect(op, name, t, {Dtype::kF32, Dtype::kBf16, Dtype::kI32}, {-1, -1});
}

Status ExpectContiguous(const char* op, const char* name, const Tensor& t) {
  if (t.is_contiguous()) return OkStatus();
  return InvalidArgument("{}: {} {} has gaps between rows, want it contiguous", op, name,
                         Describe(t));
}

Status ExpectPool(const char* op, const char* name, const Tensor& t, int64_t n, int64_t scaled) {
  return Expect(op, name, t, {Dtype::kBf16, Dtype::kF32, Dtype::kF8E4M3, Dtype::kU8},
                {-1, kPageTokens, KeyRowElements(t.dtype, n, scaled)});
}

Status ExpectBatch(const char* op, const BatchView& b, int64_t tokens) {
  QUERN_TRY(Expect(op, "positions", b.positions, {Dtype::kI32}, {tokens}));
  QUERN_TRY(Expect(op, "sequences", b.sequences, {Dtype::kI32}, {tokens}));
  return Expect(op, "page_tables", b.page_tables, {Dtype::kI32}, {-1, -1});
}

Status ExpectRoutes(const char* op, const Routes& r, int64_t tokens, int64_t slots,
                    int64_t experts) {
  QUERN_TRY(Expect(op, "experts", r.experts, {Dtype::kI32}, {tokens, slots}));
  QUERN_TRY(Expect(op, "weights", r.weights, {Dtype::kF32}, {tokens, slots}));
  QUERN_TRY(Expect(op, "offsets", r.offsets, {Dtype::kI32}, {experts < 0 ? -1 : experts + 1}));
  QUERN_TRY(Expect(op, "tokens", r.tokens, {Dtype::kI32}, {tokens * slots}));
  return Expect(op, "row_of", r.row_of, {Dtype::kI32}, {tokens, slots});
}

}  // namespace

Status Validate(const RmsNormArgs& a) {
  QUERN_TRY(ExpectActivation("RmsNorm", "x", a.x, {-1, -1}));
  QUERN_TRY(Expect("RmsNorm", "weight", a.weight, {Dtype::kF32}, {a.x.dim(1)}));
  return ExpectActivation("RmsNorm", "y", a.y, {a.x.dim(0), a.x.dim(1)});
}

Status Validate(const LayerNormArgs& a) {
  QUERN_TRY(ExpectActivation("LayerNorm", "x", a.x, {-1, -1}));
  QUERN_TRY(Expect("LayerNorm", "weight", a.weight, {Dtype::kF32}, {a.x.dim(1)}));
  QUERN_TRY(Expect("LayerNorm", "bias", a.bias, {Dtype::kF32}, {a.x.dim(1)}));
  return ExpectActivation("LayerNorm", "y", a.y, {a.x.dim(0), a.x.dim(1)});
}

Status Validate(const AddArgs& a) {
  QUERN_TRY(ExpectActivation("Add", "x", a.x, {-1, -1}));
  return ExpectActivation("Add", "y", a.y, {a.x.dim(0), a.x.dim(1)});
}

Status Validate(const LinearArgs& a) {
  QUERN_TRY(ExpectActivation("Linear", "x", a.x, {-1, a.w.cols()}));
  return ExpectActivation("Linear", "y", a.y, {a.x.dim(0), a.w.rows()});
}

Status Validate(const HeadLinearArgs& a) {
  QUERN_TRY(ExpectActivation("HeadLinear", "x", a.x, {-1, a.w.num_heads(), a.w.cols()}));
  return ExpectActivation("HeadLinear", "y", a.y, {a.x.dim(0), a.w.num_heads(), a.w.rows()});
}

Status Validate(const EmbedArgs& a) {
  QUERN_TRY(Expect("Embed", "ids", a.ids, {Dtype::kI32}, {-1}));
  return ExpectActivation("Embed", "y", a.y, {a.ids.dim(0), a.table.cols()});
}

Status Validate(const RopeTableArgs& a) {
  QUERN_TRY(Expect("RopeTable", "positions", a.positions, {Dtype::kI32}, {-1}));
  if (a.dim <= 0 || a.dim % 2 != 0)
    return InvalidArgument("RopeTable: dim {} is not even and positive", a.dim);
  QUERN_TRY(Expect("RopeTable", "out", a.out, {Dtype::kF32}, {a.positions.dim(0), 2, a.dim / 2}));
  return ExpectContiguous("RopeTable", "out", a.out);
}

Status Validate(const RopeArgs& a) {
  QUERN_TRY(ExpectActivation("Rope", "x", a.x, {-1, -1, -1}));
  if (a.x.dim(2) % 2 != 0)
    return InvalidArgument("Rope: x is {}, want an even last dimension", Describe(a.x));
  QUERN_TRY(ExpectActivation("Rope", "y", a.y, {a.x.dim(0), a.x.dim(1), a.x.dim(2)}));
  QUERN_TRY(Expect("Rope", "table", a.table, {Dtype::kF32}, {a.x.dim(0), 2, a.x.dim(2) / 2}));
  return ExpectContiguous("Rope", "table", a.table);
}

Status Validate(const RouteArgs& a) {
  QUERN_TRY(Expect("Route", "logits", a.logits, {Dtype::kF32}, {-1, -1}));
  const int64_t experts = a.logits.dim(1);
  QUERN_TRY(Expect("Route", "bias", a.bias, {Dtype::kF32}, {experts}));
  const int64_t slots = a.out.experts.rank == 2 ? a.out.experts.dim(1) : 0;
  if (slots < 1 || slots > experts)
    return InvalidArgument("Route: experts is {}, want I32 [{}, 1 to {}]", Describe(a.out.experts),
                           a.logits.dim(0), experts);
  return ExpectRoutes("Route", a.out, a.logits.dim(0), slots, experts);
}

Status Validate(const GatherRowsArgs& a) {
  QUERN_TRY(ExpectMovable("GatherRows", "x", a.x));
  QUERN_TRY(Expect("GatherRows", "rows", a.rows, {Dtype::kI32}, {-1}));
  return Expect("GatherRows", "y", a.y, {a.x.dtype}, {a.rows.dim(0), a.x.dim(1)});
}

Status Validate(const ScatterRowsArgs& a) {
  QUERN_TRY(ExpectMovable("ScatterRows", "x", a.x));
  QUERN_TRY(Expect("ScatterRows", "rows", a.rows, {Dtype::kI32}, {a.x.dim(0)}));
  return Expect("ScatterRows", "y", a.y, {a.x.dtype}, {-1, a.x.dim(1)});
}

Status Validate(const MoeGemmArgs& a) {
  QUERN_TRY(Expect("MoeGemm", "tokens", a.routes.tokens, {Dtype::kI32}, {-1}));
  const int64_t rows = a.routes.tokens.dim(0);
  QUERN_TRY(ExpectActivation("MoeGemm", "x", a.x, {rows, a.w.cols()}));
  QUERN_TRY(ExpectActivation("MoeGemm", "y", a.y, {rows, a.w.rows()}));
  return Expect("MoeGemm", "offsets", a.routes.offsets, {Dtype::kI32}, {a.w.num_experts() + 1});
}

Status Validate(const SwiGluArgs& a) {
  QUERN_TRY(ExpectActivation("SwiGlu", "y", a.y, {-1, -1}));
  return Expect("SwiGlu", "gate_up", a.gate_up, {a.y.dtype}, {a.y.dim(0), 2 * a.y.dim(1)});
}

Status Validate(const CombineArgs& a) {
  QUERN_TRY(ExpectActivation("Combine", "y", a.y, {-1, -1}));
  QUERN_TRY(Expect("Combine", "experts", a.routes.experts, {Dtype::kI32}, {a.y.dim(0), -1}));
  QUERN_TRY(ExpectRoutes("Combine", a.routes, a.y.dim(0), a.routes.experts.dim(1), -1));
  return ExpectActivation("Combine", "rows", a.rows, {a.routes.tokens.dim(0), a.y.dim(1)});
}

Status Validate(const CacheWriteArgs& a) {
  QUERN_TRY(ExpectActivation("CacheWrite", "rows", a.rows, {-1, -1}));
  if (a.scaled < 0 || a.scaled > a.rows.dim(1))
    return InvalidArgument("CacheWrite: {} scaled elements of {}", a.scaled, a.rows.dim(1));
  QUERN_TRY(ExpectPool("CacheWrite", "pool", a.pool, a.rows.dim(1), a.scaled));
  return ExpectBatch("CacheWrite", a.batch, a.rows.dim(0));
}

Status Validate(const IndexSelectArgs& a) {
  QUERN_TRY(ExpectActivation("IndexSelect", "q", a.q, {-1, -1, -1}));
  const int64_t tokens = a.q.dim(0);
  QUERN_TRY(Expect("IndexSelect", "weights", a.weights, {Dtype::kF32}, {tokens, a.q.dim(1)}));
  QUERN_TRY(ExpectPool("IndexSelect", "keys", a.keys, a.q.dim(2), a.q.dim(2)));
  QUERN_TRY(Expect("IndexSelect", "positions", a.out.positions, {Dtype::kI32}, {tokens, -1}));
  QUERN_TRY(Expect("IndexSelect", "counts", a.out.counts, {Dtype::kI32}, {tokens}));
  return ExpectBatch("IndexSelect", a.batch, tokens);
}

Status Validate(const MlaAttentionArgs& a) {
  QUERN_TRY(Expect("MlaAttention", "q", a.q, {Dtype::kF32}, {-1, -1, -1}));
  const int64_t tokens = a.q.dim(0);
  QUERN_TRY(Expect("MlaAttention", "y", a.y, {Dtype::kF32}, {tokens, a.q.dim(1), -1}));
  if (a.y.dim(2) > a.q.dim(2)) {
    return InvalidArgument("MlaAttention: rank {} over the cache row of {}", a.y.dim(2),
                           a.q.dim(2));
  }
  QUERN_TRY(ExpectPool("MlaAttention", "cache", a.cache, a.q.dim(2), a.y.dim(2)));
  if (a.selection != nullptr) {
    QUERN_TRY(
        Expect("MlaAttention", "selection", a.selection->positions, {Dtype::kI32}, {tokens, -1}));
    QUERN_TRY(Expect("MlaAttention", "counts", a.selection->counts, {Dtype::kI32}, {tokens}));
  }
  return ExpectBatch("MlaAttention", a.batch, tokens);
}

}  // namespace quern::backend
