#include "qkv/image/resize_passes.h"

#include <algorithm>

#include "qkv/core/work.h"
#include "qkv/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/image/resize_passes.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "qkv/simd/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::image {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int32_t kHalf = 1 << (kWeightBits - 1);
// Rows that SumColumns transposes at a time: one vector of bytes on every target, and one of 32-bit sums on the widest.
constexpr int64_t kBlock = 16;

// Bytes of a row transposed or summed at a time: longer than any photo's rows, with 4 MiB of scratch.
[[maybe_unused]] constexpr int64_t kStripeBytes = 1 << 18;
using Wide = hn::CappedTag<int32_t, kBlock>;

/// out[i] = Σ_k weights[k] · in[k · stride + i], rounded, for one vector of i.
HWY_INLINE void SumVector(const uint8_t* in, int64_t stride, const int32_t* weights, int32_t count, uint8_t* out) {
  const Wide wide;
  const hn::Rebind<uint8_t, Wide> narrow;
  auto sum = hn::Set(wide, kHalf);
  for (int32_t k = 0; k < count; ++k) {
    const auto samples = hn::PromoteTo(wide, hn::LoadU(narrow, in + k * stride));
    sum = hn::Add(sum, hn::Mul(samples, hn::Set(wide, weights[k])));
  }
  hn::StoreU(hn::DemoteTo(narrow, hn::ShiftRight<kWeightBits>(sum)), narrow, out);
}

/// The same for n values of i.
HWY_INLINE void SumMany(const uint8_t* in, int64_t stride, const int32_t* weights, int32_t count, int64_t n,
                        uint8_t* out) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Wide()));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) SumVector(in + i, stride, weights, count, out + i);
  if (i < n && n >= lanes) {  // the last vector overlaps the previous one
    SumVector(in + n - lanes, stride, weights, count, out + n - lanes);
    return;
  }
  for (; i < n; ++i) {
    int32_t sum = kHalf;
    for (int32_t k = 0; k < count; ++k) sum += in[k * stride + i] * weights[k];
    out[i] = static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
  }
}

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void Transpose16(const uint8_t* const* in, int64_t offset, uint8_t* out, int64_t out_stride) {
  for (int64_t i = 0; i < kBlock; ++i)
    for (int64_t row = 0; row < kBlock; ++row) out[i * out_stride + row] = in[row][offset + i];
}
#else
/// Transposes a block of 16 × 16 bytes by four rounds of interleaving.
HWY_INLINE void Transpose16(const uint8_t* const* in, int64_t offset, uint8_t* out, int64_t out_stride) {
  const hn::Full128<uint8_t> d;
  using V = hn::Vec<decltype(d)>;
  V a[kBlock], b[kBlock];
  for (int i = 0; i < kBlock; ++i) a[i] = hn::LoadU(d, in[i] + offset);
  // Each round interleaves row i with row i + 8; after four rounds the block is transposed.
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < kBlock / 2; ++i) {
      b[2 * i] = hn::InterleaveLower(d, a[i], a[i + kBlock / 2]);
      b[2 * i + 1] = hn::InterleaveUpper(d, a[i], a[i + kBlock / 2]);
    }
    for (int i = 0; i < kBlock; ++i) a[i] = b[i];
  }
  for (int i = 0; i < kBlock; ++i) hn::StoreU(a[i], d, out + i * out_stride);
}
#endif

/// Transposes rows: out [n, 16]; in holds 16 pointers to n bytes each.
HWY_INLINE void RowsToColumns(const uint8_t* const* in, int64_t n, uint8_t* out) {
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) Transpose16(in, i, out + i * kBlock, kBlock);
  for (; i < n; ++i)
    for (int64_t row = 0; row < kBlock; ++row) out[i * kBlock + row] = in[row][i];
}

/// in: [n, 16]; out: the first `rows` of the 16 columns as rows, n bytes each, out_stride apart.
HWY_INLINE void ColumnsToRows(const uint8_t* in, int64_t n, int64_t rows, uint8_t* out, int64_t out_stride) {
  int64_t i = 0;
  if (rows == kBlock) {
    for (; i + kBlock <= n; i += kBlock) {
      const uint8_t* columns[kBlock];
      for (int64_t k = 0; k < kBlock; ++k) columns[k] = in + (i + k) * kBlock;
      Transpose16(columns, 0, out + i, out_stride);
    }
  }
  for (; i < n; ++i)
    for (int64_t row = 0; row < rows; ++row) out[row * out_stride + i] = in[i * kBlock + row];
}

}  // namespace

// Columns of pixels are not contiguous: 16 rows at a time are transposed, summed as rows, and transposed back. Very
// wide images are processed in stripes of outputs, so that the scratch memory does not grow with the width.
void SumColumnsTarget(const Plane& in, int64_t begin, int channels, const Taps& taps, Sides& sides, uint8_t* out,
                      int64_t out_stride) {
  for (int64_t left = 0, right; left < taps.outputs(); left = right) {
    const int64_t first_in = taps.first[left];
    for (right = left + 1; right < taps.outputs(); ++right)
      if ((taps.first[right] + taps.count[right] - first_in) * channels > kStripeBytes) break;
    const int64_t in_bytes = (taps.first[right - 1] + taps.count[right - 1] - first_in) * channels;
    sides.in.resize(static_cast<size_t>(in_bytes * kBlock));
    sides.sums.resize(static_cast<size_t>((right - left) * channels * kBlock));
    for (int64_t y = 0; y < in.rows; y += kBlock) {
      Spend(in_bytes);
      const int64_t rows = std::min(kBlock, in.rows - y);
      const uint8_t* row[kBlock];
      // Missing rows of the last block repeat the last row.
      for (int64_t i = 0; i < kBlock; ++i)
        row[i] = in.data + (y + std::min(i, rows - 1)) * in.stride + (first_in - begin) * channels;
      RowsToColumns(row, in_bytes, sides.in.data());
      uint8_t* sum = sides.sums.data();
      for (int64_t x = left; x < right; ++x) {
        const int32_t* weights = taps.weights.data() + x * taps.capacity;
        const uint8_t* first = sides.in.data() + (taps.first[x] - first_in) * channels * kBlock;
        for (int c = 0; c < channels; ++c, sum += kBlock)
          SumMany(first + c * kBlock, channels * kBlock, weights, taps.count[x], kBlock, sum);
      }
      ColumnsToRows(sides.sums.data(), (right - left) * channels, rows, out + y * out_stride + left * channels,
                    out_stride);
    }
  }
}

void SumRowsTarget(const Plane& in, int64_t begin, const Taps& taps, uint8_t* out) {
  for (int64_t y = 0; y < taps.outputs(); ++y, out += in.row_bytes) {
    const uint8_t* first = in.data + (taps.first[y] - begin) * in.stride;
    const int32_t* weights = taps.weights.data() + y * taps.capacity;
    for (int64_t x = 0; x < in.row_bytes; x += kStripeBytes) {
      const int64_t bytes = std::min(kStripeBytes, in.row_bytes - x);
      Spend(bytes / kBlock * taps.count[y]);
      SumMany(first + x, in.stride, weights, taps.count[y], bytes, out + x);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::image
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::image {

HWY_EXPORT(SumColumnsTarget);
HWY_EXPORT(SumRowsTarget);

void SumColumns(const Plane& in, int64_t begin, int channels, const Taps& taps, Sides& sides, uint8_t* out,
                int64_t out_stride) {
  QKV_DISPATCH(SumColumnsTarget)(in, begin, channels, taps, sides, out, out_stride);
}

void SumRows(const Plane& in, int64_t begin, const Taps& taps, uint8_t* out) {
  QKV_DISPATCH(SumRowsTarget)(in, begin, taps, out);
}

}  // namespace qkv::image
#endif
