#include "quern/checkpoint/signature.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace quern::checkpoint {
namespace {

using Shape = std::vector<int64_t>;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Whether it holds one number: [], [1], [1, 1] ...
bool IsSingle(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](int64_t dim) { return dim == 1; });
}

bool IsFloat(Dtype dtype) {
  return dtype == Dtype::kBf16 || dtype == Dtype::kF16 || dtype == Dtype::kF32;
}

// Scales of FP8 weights: f32, or a type that f32 holds exactly (some tools keep the model's bf16,
// or powers of two).
bool IsFp8Scale(Dtype dtype) { return IsFloat(dtype) || dtype == Dtype::kF8E8M0; }

std::string Describe(const StoredParts& parts) {
  std::string text = DescribePart(parts.weight);
  for (const Part* part : {&parts.scale, &parts.global_scale}) {
    if (part->there()) text += fmt::format(" + {} {}", part->label, DescribePart(*part));
  }
  return text;
}

// [r, c], or [r, 1, c, 1] as modelopt writes block scales.
bool IsBlockGrid(const Shape& shape, int64_t block_rows, int64_t block_cols, int64_t rows,
                 int64_t cols) {
  const int64_t r = CeilDiv(rows, block_rows), c = CeilDiv(cols, block_cols);
  return shape == Shape{r, c} || shape == Shape{r, 1, c, 1};
}

class Reader {
 public:
  Reader(const StoredParts& parts, int64_t rows, int64_t cols, const Wanted& wanted)
      : p_(parts), rows_(rows), cols_(cols), wanted_(wanted) {}

  Signature Read() {
    s_.text = Describe(p_);
    const Dtype dtype = p_.weight.dtype();
    if (IsFloat(dtype)) {
      ReadUnquantized();
    } else if (dtype == Dtype::kF8E4M3) {
      ReadFp8();
    } else if (dtype == Dtype::kU8) {
      ReadFp4();
    } else if (dtype == Dtype::kI32 && p_.packed_name) {
      Fail("integers packed in I32 (INT4, INT8) are not supported");
    } else {
      Fail("{} weights are not supported; want BF16, F16, F32, F8_E4M3, or U8 with packed FP4",
           DtypeName(dtype));
    }
    return std::move(s_);
  }

 private:
  template <typename... Args>
  void Fail(fmt::format_string<Args...> f, Args&&... args) {
    s_.error = fmt::format(f, std::forward<Args>(args)...);
  }
  bool CheckShape(int64_t stored_cols) {
    if (p_.weight.shape == Shape{rows_, stored_cols}) return true;
    Fail("wrong shape: want [{}, {}]{}", rows_, stored_cols,
         stored_cols == cols_ ? std::string()
                              : fmt::format(" for [{}, {}] in packed FP4", rows_, cols_));
    return false;
  }
  void Set(WeightFormat format) {
    s_.stored = format;
    s_.format = {.quantized = true, .format = format};
  }

  void ReadUnquantized() {
    const Dtype dtype = p_.weight.dtype();
    s_.stored = dtype == Dtype::kBf16  ? WeightFormat::kBf16
                : dtype == Dtype::kF16 ? WeightFormat::kF16
                                       : WeightFormat::kF32;
    if (!CheckShape(cols_)) return;
    if (p_.scale.there() || p_.global_scale.there()) {
      Fail("an unquantized weight beside a scale has no meaning here");
    }
  }

  void ReadFp8() {
    if (!CheckShape(cols_)) return;
    if (p_.global_scale.there()) return Fail("FP8 weights have no second scale");
    if (!p_.scale.there()) return Fail("FP8 codes without weight_scale or weight_scale_inv");
    if (!IsFp8Scale(p_.scale.dtype())) {
      return Fail("scales of FP8 weights are F32, BF16, F16 or F8_E8M0");
    }
    // A tiny matrix can fit several; the rule's word then decides, else the order below.
    const Shape& shape = p_.scale.shape;
    const int64_t block_rows = wanted_.block_rows > 0 ? wanted_.block_rows : 128;
    const int64_t block_cols = wanted_.block_cols > 0 ? wanted_.block_cols : 128;
    const bool tensor = IsSingle(shape);
    const bool channel = !p_.inverse_name && (shape == Shape{rows_} || shape == Shape{rows_, 1});
    const bool block = IsBlockGrid(shape, block_rows, block_cols, rows_, cols_);
    const auto wants = [this](WeightFormat format) {
      return wanted_.quantized && wanted_.format == format;
    };
    if (block && (wants(WeightFormat::kFp8Block) || !(tensor || channel)))
      return SetBlock(block_rows, block_cols);
    if (channel && (wants(WeightFormat::kFp8Channel) || !tensor))
      return Set(WeightFormat::kFp8Channel);
    if (tensor && (wants(WeightFormat::kFp8Tensor) || shape.size() < 2))
      return Set(WeightFormat::kFp8Tensor);
    if (block) return SetBlock(block_rows, block_cols);
    if (tensor) return Set(WeightFormat::kFp8Tensor);
    Fail(
        "scales of shape [{}] fit neither blocks of {}x{} ([{}, {}]) nor channels ([{}]) nor a "
        "tensor ([1])",
        fmt::join(shape, ", "), block_rows, block_cols, CeilDiv(rows_, block_rows),
        CeilDiv(cols_, block_cols), rows_);
  }
  void SetBlock(int64_t block_rows, int64_t block_cols) {
    Set(WeightFormat::kFp8Block);
    s_.format.block_rows = block_rows;
    s_.format.block_cols = block_cols;
  }

  void ReadFp4() {
    if (cols_ % 2 != 0) return Fail("packed FP4 needs an even number of columns, not {}", cols_);
    if (!CheckShape(cols_ / 2)) return;
    if (!p_.scale.there()) return Fail("packed codes without weight_scale");
    const Dtype dtype = p_.scale.dtype();
    const bool e8m0 = dtype == Dtype::kU8 || dtype == Dtype::kF8E8M0;
    if (!e8m0 && dtype != Dtype::kF8E4M3) {
      return Fail("scales of packed FP4 are U8 (E8M0) for MXFP4 or F8_E4M3 for NVFP4");
    }
    const int64_t group = e8m0 ? 32 : 16;
    if (cols_ % group != 0 || p_.scale.shape != Shape{rows_, cols_ / group}) {
      return Fail("want scales [{}, {}]: one per {} columns", rows_, CeilDiv(cols_, group), group);
    }
    if (e8m0) {
      if (p_.global_scale.there()) return Fail("MXFP4 has no global scale");
      return Set(WeightFormat::kMxfp4);
    }
    if (!p_.global_scale.there()) {
      return Fail("NVFP4 codes without weight_scale_2 or weight_global_scale");
    }
    if (p_.global_scale.dtype() != Dtype::kF32 || !IsSingle(p_.global_scale.shape)) {
      return Fail("the global scale of NVFP4 is one F32 number");
    }
    Set(WeightFormat::kNvfp4);
  }

  const StoredParts& p_;
  const int64_t rows_, cols_;
  const Wanted& wanted_;
  Signature s_;
};

}  // namespace

Part WholePart(const TensorInfo* tensor, std::string_view label) {
  Part part;
  if (tensor == nullptr) return part;
  part.tensor = tensor;
  part.label = label;
  part.shape = tensor->shape;
  return part;
}

std::string DescribePart(const Part& part) {
  return fmt::format("{} [{}]", DtypeName(part.dtype()), fmt::join(part.shape, ", "));
}

Signature ReadSignature(const StoredParts& parts, int64_t rows, int64_t cols,
                        const Wanted& wanted) {
  return Reader(parts, rows, cols, wanted).Read();
}

}  // namespace quern::checkpoint
