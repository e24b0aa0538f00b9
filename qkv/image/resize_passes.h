// The two passes of a resize: weighted sums of neighbouring columns, or of neighbouring rows. Internal to qkv/image.
#pragma once

#include <cstdint>
#include <vector>

namespace qkv::image {

// Weights are integers with this many fraction bits: 8 bits of sample and a sum past 1 fit in 32 bits.
inline constexpr int kWeightBits = 32 - 8 - 2;

/// For each output position of an axis, which inputs it sums, and with what weights.
struct Taps {
  int64_t capacity = 0;          // weights kept for an output
  std::vector<int64_t> first;    // [outputs]
  std::vector<int32_t> count;    // [outputs]
  std::vector<int32_t> weights;  // [outputs, capacity]

  int64_t outputs() const { return static_cast<int64_t>(first.size()); }
  /// The inputs that any output needs: [begin, end).
  int64_t begin() const;
  int64_t end() const;
};

/// A part of an image: `rows` rows of `row_bytes` bytes, `stride` bytes apart.
struct Plane {
  const uint8_t* data;
  int64_t stride, rows, row_bytes;
};

/// Rows of a plane on their side, as SumColumns works on them; grows to what is needed.
struct Sides {
  std::vector<uint8_t> in, sums;  // [bytes of the stripe, 16]
};

/// out: [in.rows, outputs, channels]. in's first column is the column `begin` that the taps count from 0.
void SumColumns(const Plane& in, int64_t begin, int channels, const Taps& taps, Sides& sides, uint8_t* out);

/// out: [outputs, in.row_bytes]. in's first row is the row `begin` that the taps count from 0.
void SumRows(const Plane& in, int64_t begin, const Taps& taps, uint8_t* out);

}  // namespace qkv::image
