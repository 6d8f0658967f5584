#include "quern/backend/cpu/int_matrix.h"

#include <cstring>
#include <vector>

#include "quern/backend/host/host_memory.h"
#include "quern/numerics/int8_group.h"

namespace quern::backend::cpu {
namespace {

// Where a panel keeps the codes and the scales of group g.
struct GroupBytes {
  uint8_t* codes;
  uint8_t* scales;
};
GroupBytes GroupOf(const IntMatrix& m, uint8_t* panel, int64_t g) {
  const int64_t code = GroupCodeBytes(m.codes), scale = GroupScaleBytes(m.codes);
  const int64_t first = g / kScaleBlock * kScaleBlock;  // of the block
  uint8_t* block = panel + first * (code + scale);
  const int64_t in_block = std::min(kScaleBlock, m.groups() - first);
  return {block + (g - first) * code, block + in_block * code + (g - first) * scale};
}

// Nibbles 0..3 of x, each in a byte of its own.
uint32_t SpreadNibbles(uint32_t x) {
  x = (x | x << 8) & 0x00FF00FFu;
  return (x | x << 4) & 0x0F0F0F0Fu;
}

void PackE2M1Row(const StoredMatrix& stored, const IntMatrix& m, int64_t r, uint8_t* panel) {
  const std::byte* row = stored.data + r * stored.row_bytes;
  const std::byte* scales = stored.scales + r * stored.scale_row_bytes;
  const int64_t lane = r % kPanelRows;
  for (int64_t g = 0; g < m.groups(); ++g) {
    const GroupBytes to = GroupOf(m, panel, g);
    for (int64_t t = 0; t < 4; ++t) {
      uint32_t eight;  // codes of k = 8 t .. 8 t + 7
      std::memcpy(&eight, row + g * 16 + t * 4, 4);
      const uint32_t bytes = SpreadNibbles(eight & 0xFFFFu) | SpreadNibbles(eight >> 16) << 4;
      std::memcpy(to.codes + t * 64 + lane * 4, &bytes, 4);
    }
    to.scales[lane] = static_cast<uint8_t>(scales[g]);
  }
}

void PackInt8Row(const int8_t* codes, const uint16_t* scales, const IntMatrix& m, int64_t lane,
                 uint8_t* panel) {
  for (int64_t g = 0; g < m.groups(); ++g) {
    const GroupBytes to = GroupOf(m, panel, g);
    const int64_t count = std::min(kIntGroup, m.cols - g * kIntGroup);
    for (int64_t k = 0; k < count; ++k) {
      to.codes[k / 4 * 64 + lane * 4 + k % 4] =
          static_cast<uint8_t>(codes[g * kIntGroup + k] + 128);
    }
    std::memcpy(to.scales + lane * 2, scales + g, 2);
  }
}

}  // namespace

Result<IntMatrix> PackInts(const StoredMatrix& stored, ThreadPool& pool) {
  IntMatrix m;
  m.codes = stored.format == WeightFormat::kMxfp4 ? IntCodes::kE2M1 : IntCodes::kInt8;
  m.rows = stored.rows;
  m.cols = stored.cols;
  QUERN_ASSIGN(m.memory, host::AllocateHost(m.bytes()));
  pool.ParallelFor(m.panels(), [&](int64_t p, int) {
    uint8_t* panel = static_cast<uint8_t*>(m.memory->data()) + p * m.panel_bytes();
    const int64_t end = std::min(m.rows, (p + 1) * kPanelRows);
    if (m.codes == IntCodes::kE2M1) {
      for (int64_t r = p * kPanelRows; r < end; ++r) PackE2M1Row(stored, m, r, panel);
      return;
    }
    std::vector<float> row(static_cast<size_t>(m.cols));
    std::vector<int8_t> codes(row.size());
    std::vector<uint16_t> scales(static_cast<size_t>(m.groups()));
    for (int64_t r = p * kPanelRows; r < end; ++r) {
      DecodeRow(stored, r, row.data());
      EncodeInt8Row(row.data(), m.cols, codes.data(), scales.data());
      PackInt8Row(codes.data(), scales.data(), m, r % kPanelRows, panel);
    }
  });
  return m;
}

}  // namespace quern::backend::cpu
