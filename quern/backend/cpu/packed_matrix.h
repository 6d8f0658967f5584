// Weights in the order the CPU kernels read them.
//
// Rows are dealt into panels of 16; inside a panel, k walks slowest: codes [panels][cols][16], so
// that one vector load gives the same k of 16 outputs and results stay in their lanes. FP4 keeps
// two k in a byte: [panels][cols / 2][16], low nibble = even k. Rows past the end are zero codes.
// Scales stand in the same order: [panels][groups][16].
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "quern/backend/backend.h"
#include "quern/base/thread_pool.h"

namespace quern::backend::cpu {

inline constexpr int64_t kPanelRows = 16;

enum class Codes : uint8_t { kF32, kBf16, kE4M3, kE2M1 };
enum class Scales : uint8_t { kNone, kF32, kE8M0 };

struct PackedMatrix {
  Codes codes = Codes::kF32;
  Scales scales = Scales::kNone;
  int64_t rows = 0, cols = 0;
  int64_t group = 0;  // weights along k that share a scale; cols when there is none
  std::unique_ptr<Buffer> code_bytes, scale_bytes;

  int64_t panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
  int64_t groups() const { return (cols + group - 1) / group; }
  int64_t panel_code_bytes() const;   // of one panel
  int64_t panel_scale_bytes() const;  // of one panel
  const uint8_t* panel_codes(int64_t panel) const {
    return static_cast<const uint8_t*>(code_bytes->data()) + panel * panel_code_bytes();
  }
  const uint8_t* panel_scales(int64_t panel) const {
    return scales == Scales::kNone
               ? nullptr
               : static_cast<const uint8_t*>(scale_bytes->data()) + panel * panel_scale_bytes();
  }
  int64_t bytes() const;
};

// How a stored format is packed. F16 is widened to f32 (exact), the others keep their codes.
struct Packing {
  Codes codes;
  Scales scales;
};
Packing PackingOf(WeightFormat format);

// Repacks one stored matrix, panels in parallel. kResourceExhausted when memory runs out.
Result<PackedMatrix> Pack(const StoredMatrix& stored, ThreadPool& pool);
// Decodes an unquantized matrix and encodes it as numerics/fp8_group.h says, panels in parallel.
Result<PackedMatrix> PackAsFp8(const StoredMatrix& stored, ThreadPool& pool);

// Packs f32 rows given by `row(r, out)`; used where a matrix is transposed or sliced after
// decoding. Values that bf16 holds exactly (all of a bf16 checkpoint's) are kept as bf16 when
// `as_bf16`.
Result<PackedMatrix> PackRows(int64_t rows, int64_t cols, bool as_bf16, const float* values);

}  // namespace quern::backend::cpu
