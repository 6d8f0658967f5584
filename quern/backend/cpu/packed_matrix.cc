#include "quern/backend/cpu/packed_matrix.h"

#include <cstring>

#include "quern/backend/host/host_memory.h"
#include "quern/numerics/bf16.h"
#include "quern/numerics/fp8_group.h"

namespace quern::backend::cpu {
namespace {

int64_t CodeBytes(Codes codes, int64_t cols) {
  switch (codes) {
    case Codes::kF32:
      return cols * kPanelRows * 4;
    case Codes::kBf16:
      return cols * kPanelRows * 2;
    case Codes::kE4M3:
      return cols * kPanelRows;
    case Codes::kE2M1:
      return cols / 2 * kPanelRows;
  }
  return 0;
}

int64_t ScaleBytes(Scales scales) {
  return scales == Scales::kF32 ? 4 : scales == Scales::kE8M0 ? 1 : 0;
}

Status AllocatePanels(PackedMatrix& m) {
  QUERN_ASSIGN(m.code_bytes, host::AllocateHost(m.panels() * m.panel_code_bytes()));
  if (m.scales != Scales::kNone) {
    QUERN_ASSIGN(m.scale_bytes, host::AllocateHost(m.panels() * m.panel_scale_bytes()));
  }
  return OkStatus();
}

// Element k of the 16 rows stands at [k][16]; T is the code type.
template <typename T>
void InterleaveRow(const std::byte* row, int64_t cols, int64_t lane, T* panel) {
  for (int64_t k = 0; k < cols; ++k)
    std::memcpy(panel + k * kPanelRows + lane, row + k * sizeof(T), sizeof(T));
}

void PackRowCodes(const StoredMatrix& stored, const PackedMatrix& m, int64_t r, uint8_t* panel) {
  const std::byte* row = stored.data + r * stored.row_bytes;
  const int64_t lane = r % kPanelRows;
  if (stored.format == WeightFormat::kF16) {
    std::vector<float> wide(static_cast<size_t>(m.cols));
    DecodeRow(stored, r, wide.data());
    InterleaveRow(reinterpret_cast<const std::byte*>(wide.data()), m.cols, lane,
                  reinterpret_cast<float*>(panel));
    return;
  }
  switch (m.codes) {
    case Codes::kF32:
      InterleaveRow(row, m.cols, lane, reinterpret_cast<float*>(panel));
      break;
    case Codes::kBf16:
      InterleaveRow(row, m.cols, lane, reinterpret_cast<uint16_t*>(panel));
      break;
    case Codes::kE4M3:
      InterleaveRow(row, m.cols, lane, panel);
      break;
    case Codes::kE2M1:
      InterleaveRow(row, m.cols / 2, lane, panel);
      break;
  }
}

void PackRowScales(const StoredMatrix& stored, const PackedMatrix& m, int64_t r, uint8_t* panel) {
  const int64_t lane = r % kPanelRows;
  for (int64_t g = 0; g < m.groups(); ++g) {
    if (m.scales == Scales::kE8M0) {
      std::memcpy(panel + g * kPanelRows + lane, stored.scales + r * stored.scale_row_bytes + g, 1);
    } else {
      reinterpret_cast<float*>(panel)[g * kPanelRows + lane] = ScaleAt(stored, r, g * m.group);
    }
  }
}

}  // namespace

int64_t PackedMatrix::panel_code_bytes() const { return CodeBytes(codes, cols); }
int64_t PackedMatrix::panel_scale_bytes() const {
  return groups() * kPanelRows * ScaleBytes(scales);
}
int64_t PackedMatrix::bytes() const {
  return panels() * (panel_code_bytes() + panel_scale_bytes());
}

Packing PackingOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
    case WeightFormat::kF16:
      return {Codes::kF32, Scales::kNone};
    case WeightFormat::kBf16:
      return {Codes::kBf16, Scales::kNone};
    case WeightFormat::kFp8Block:
    case WeightFormat::kFp8Channel:
    case WeightFormat::kFp8Tensor:
      return {Codes::kE4M3, Scales::kF32};
    case WeightFormat::kMxfp4:
      return {Codes::kE2M1, Scales::kE8M0};
    case WeightFormat::kNvfp4:
      return {Codes::kE2M1, Scales::kF32};
  }
  return {Codes::kF32, Scales::kNone};
}

Result<PackedMatrix> Pack(const StoredMatrix& stored, ThreadPool& pool) {
  PackedMatrix m;
  const Packing packing = PackingOf(stored.format);
  m.codes = packing.codes;
  m.scales = packing.scales;
  m.rows = stored.rows;
  m.cols = stored.cols;
  m.group = ScaleGroup(stored);
  if (m.codes == Codes::kE2M1 && m.cols % 2 != 0)
    return InvalidArgument("FP4 rows of {} elements", m.cols);
  QUERN_TRY(AllocatePanels(m));
  pool.ParallelFor(m.panels(), [&](int64_t p, int) {
    uint8_t* codes = static_cast<uint8_t*>(m.code_bytes->data()) + p * m.panel_code_bytes();
    const int64_t end = std::min(m.rows, (p + 1) * kPanelRows);
    for (int64_t r = p * kPanelRows; r < end; ++r) PackRowCodes(stored, m, r, codes);
    if (m.scales == Scales::kNone) return;
    uint8_t* scales = static_cast<uint8_t*>(m.scale_bytes->data()) + p * m.panel_scale_bytes();
    for (int64_t r = p * kPanelRows; r < end; ++r) PackRowScales(stored, m, r, scales);
  });
  return m;
}

Result<PackedMatrix> PackAsFp8(const StoredMatrix& stored, ThreadPool& pool) {
  PackedMatrix m;
  m.codes = Codes::kE4M3;
  m.scales = Scales::kF32;
  m.rows = stored.rows;
  m.cols = stored.cols;
  m.group = kFp8Group;
  QUERN_TRY(AllocatePanels(m));
  pool.ParallelFor(m.panels(), [&](int64_t p, int) {
    uint8_t* codes = static_cast<uint8_t*>(m.code_bytes->data()) + p * m.panel_code_bytes();
    auto* scales = reinterpret_cast<float*>(static_cast<uint8_t*>(m.scale_bytes->data()) +
                                            p * m.panel_scale_bytes());
    std::vector<float> row(static_cast<size_t>(m.cols));
    std::vector<uint8_t> row_codes(row.size());
    std::vector<float> row_scales(static_cast<size_t>(m.groups()));
    const int64_t end = std::min(m.rows, (p + 1) * kPanelRows);
    for (int64_t r = p * kPanelRows; r < end; ++r) {
      const int64_t lane = r % kPanelRows;
      DecodeRow(stored, r, row.data());
      EncodeFp8Row(row.data(), m.cols, row_codes.data(), row_scales.data());
      for (int64_t k = 0; k < m.cols; ++k)
        codes[k * kPanelRows + lane] = row_codes[static_cast<size_t>(k)];
      for (int64_t g = 0; g < m.groups(); ++g)
        scales[g * kPanelRows + lane] = row_scales[static_cast<size_t>(g)];
    }
  });
  return m;
}

Result<PackedMatrix> PackRows(int64_t rows, int64_t cols, bool as_bf16, const float* values) {
  PackedMatrix m;
  m.codes = as_bf16 ? Codes::kBf16 : Codes::kF32;
  m.rows = rows;
  m.cols = cols;
  m.group = cols;
  QUERN_TRY(AllocatePanels(m));
  for (int64_t r = 0; r < rows; ++r) {
    uint8_t* panel =
        static_cast<uint8_t*>(m.code_bytes->data()) + r / kPanelRows * m.panel_code_bytes();
    for (int64_t k = 0; k < cols; ++k) {
      const float v = values[r * cols + k];
      const int64_t at = k * kPanelRows + r % kPanelRows;
      if (as_bf16) {
        reinterpret_cast<uint16_t*>(panel)[at] = F32ToBf16(v);
      } else {
        reinterpret_cast<float*>(panel)[at] = v;
      }
    }
  }
  return m;
}

}  // namespace quern::backend::cpu
