#include "qkv/app/detection/mask_rle.h"

#include <algorithm>

#include "qkv/core/error.h"
#include "qkv/core/work.h"
#include "qkv/image/runs.h"

namespace qkv::app {

template <typename T>
MaskRle EncodeMask(View<const T> values, T value, const PixelBox& box) {
  const int64_t height = values.dim(0), width = values.dim(1);
  Require(values.dense() && box.top >= 0 && box.left >= 0 && box.bottom <= height && box.right <= width,
          "mask: a box of rows {} to {} and columns {} to {} in {}", box.top, box.bottom, box.left, box.right,
          values.shape());
  MaskRle rle{height, width, {}};
  bool one = false;
  int64_t begin = 0;  // of the run, in pixels counted column by column
  const auto set = [&](int64_t place, bool is) {
    if (is == one) return;
    rle.counts.push_back(place - begin);
    begin = place, one = is;
  };
  for (int64_t x = box.left; x < box.right; ++x) {
    if (box.top > 0) set(x * height, false);
    for (int64_t from = box.top; from < box.bottom; from += image::kRunPixels) {
      const int64_t to = std::min(box.bottom, from + image::kRunPixels);
      Spend(to - from);
      for (int64_t y = from; y < to; ++y) set(x * height + y, values.row(y)[x] == value);
    }
    if (box.bottom < height) set(x * height + box.bottom, false);
  }
  if (box.right < width) set(box.right * height, false);
  rle.counts.push_back(height * width - begin);
  return rle;
}

template MaskRle EncodeMask(View<const int32_t>, int32_t, const PixelBox&);
template MaskRle EncodeMask(View<const uint8_t>, uint8_t, const PixelBox&);

std::string CompressCounts(std::span<const int64_t> counts) {
  std::string text;
  for (size_t i = 0; i < counts.size(); ++i) {
    Spend(1);
    int64_t x = i > 2 ? counts[i] - counts[i - 2] : counts[i];
    for (bool more = true; more;) {
      int64_t group = x & 0x1f;
      x >>= 5;
      more = (group & 0x10) != 0 ? x != -1 : x != 0;
      if (more) group |= 0x20;
      text.push_back(static_cast<char>(group + '0'));
    }
  }
  return text;
}

std::vector<int64_t> ExpandCounts(std::string_view text) {
  constexpr int kMostBits = 60;
  std::vector<int64_t> counts;
  for (size_t at = 0; at < text.size();) {
    Spend(1);
    uint64_t x = 0;
    int bits = 0, group = 0x20;
    for (; (group & 0x20) != 0; bits += 5) {
      Require(at < text.size() && bits < kMostBits, "mask: counts end within a number, or one is too large");
      group = text[at++] - '0';
      Require(group >= 0 && group < 0x40, "mask: counts: byte {}: expected '0' to 'o'", at - 1);
      x |= static_cast<uint64_t>(group & 0x1f) << bits;
    }
    if ((group & 0x10) != 0) x |= ~uint64_t{0} << bits;
    const auto difference = static_cast<int64_t>(x);
    counts.push_back(counts.size() > 2 ? counts[counts.size() - 2] + difference : difference);
    Require(counts.back() >= 0 && counts.back() < int64_t{1} << 62, "mask: counts: {} is no length", counts.back());
  }
  return counts;
}

Tensor<uint8_t> DecodeMask(const MaskRle& mask) {
  const int64_t height = mask.height, width = mask.width;
  Tensor<uint8_t> values({height, width});
  int64_t begin = 0;
  for (size_t i = 0; i < mask.counts.size(); ++i) {
    const int64_t count = mask.counts[i];
    Require(count >= 0 && count <= height * width - begin, "mask: counts of more than {} x {} pixels", height, width);
    if (i % 2 == 1) {
      for (int64_t place = begin; place < begin + count; ++place) {
        values[place % height * width + place / height] = 1;
      }
      Spend(count);
    }
    begin += count;
  }
  Require(begin == height * width, "mask: counts of {} pixels, expected {} x {}", begin, height, width);
  return values;
}

io::Json ToJson(const MaskRle& mask) {
  return {{"size", {mask.height, mask.width}}, {"counts", CompressCounts(mask.counts)}};
}

}  // namespace qkv::app
