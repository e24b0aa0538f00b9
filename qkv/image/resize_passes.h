// The two passes of resizing: weighted sums over columns and over rows. Internal to qkv/image.
#pragma once

#include <cstdint>
#include <vector>

namespace qkv::image {

// Weights are fixed-point with this many fraction bits: 8 bits of sample and a sum above 1 fit in 32 bits.
inline constexpr int kWeightBits = 32 - 8 - 2;

/// The inputs and weights that each output position of an axis sums.
struct Taps {
  int64_t capacity = 0;          // weights stored per output
  std::vector<int64_t> first;    // [outputs]
  std::vector<int32_t> count;    // [outputs]
  std::vector<int32_t> weights;  // [outputs, capacity]

  int64_t outputs() const { return static_cast<int64_t>(first.size()); }
};

/// Part of an image: `rows` rows of `row_bytes` bytes, `stride` bytes apart.
struct Plane {
  const uint8_t* data;
  int64_t stride, rows, row_bytes;
};

/// Transposed rows of a plane, scratch of SumColumns; grows as needed.
struct Sides {
  std::vector<uint8_t> in, sums;  // [bytes of the stripe, 16]
};

/// out: [in.rows, outputs, channels], rows out_stride bytes apart. The first column of `in` is column `begin` of the
/// taps' numbering. Can be given up, as SumRows.
void SumColumns(const Plane& in, int64_t begin, int channels, const Taps& taps, Sides& sides, uint8_t* out,
                int64_t out_stride);

/// out: [outputs, in.row_bytes]. The first row of `in` is row `begin` of the taps' numbering.
void SumRows(const Plane& in, int64_t begin, const Taps& taps, uint8_t* out);

}  // namespace qkv::image
