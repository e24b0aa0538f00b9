#include "qkv/app/detection/mask_upsampling.h"

#include <algorithm>

#include "qkv/core/error.h"
#include "qkv/image/runs.h"

namespace qkv::app {

LinearAxis::LinearAxis(int64_t from, int64_t to) {
  Require(from > 0 && to > 0 && from <= INT32_MAX, "interpolate: {} samples to {}", from, to);
  // In float, like torch: the places of large photos differ visibly from those in double.
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  places_.resize(static_cast<size_t>(to));
  image::ForEachRun(to, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float place = std::max(scale * (static_cast<float>(i) + 0.5f) - 0.5f, 0.0f);
      const int64_t low = std::min(static_cast<int64_t>(place), from - 1);
      places_[static_cast<size_t>(i)] = {static_cast<int32_t>(low), static_cast<int32_t>(std::min(low + 1, from - 1)),
                                         std::clamp(place - static_cast<float>(low), 0.0f, 1.0f)};
    }
  });
}

void LinearAxis::Apply(const float* row, int64_t begin, std::span<float> out) const {
  const Place* const places = places_.data() + begin;
  for (size_t i = 0; i < out.size(); ++i) {
    const Place& place = places[i];
    out[i] = (1 - place.share) * row[place.low] + place.share * row[place.high];
  }
}

void MixRows(const float* low, const float* high, float share, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = (1 - share) * low[i] + share * high[i];
}

MaskUpsampler::MaskUpsampler(const MaskGeometry& g)
    : geometry_(g),
      input_rows_(g.mask_height, g.input_height),
      input_columns_(g.mask_width, g.input_width),
      photo_rows_(g.seen_height, g.height),
      photo_columns_(g.seen_width, g.width) {
  Require(g.seen_height <= g.input_height && g.seen_width <= g.input_width,
          "masks: a photo of {} x {} in an input of {} x {}", g.seen_width, g.seen_height, g.input_width,
          g.input_height);
}

void MaskUpsampler::InputRow(View<const float> mask, int64_t row, Scratch& scratch, std::span<float> out) const {
  const LinearAxis::Place& place = input_rows_[row];
  scratch.mixed.resize(static_cast<size_t>(geometry_.mask_width));
  MixRows(mask.row(place.low), mask.row(place.high), place.share, scratch.mixed);
  input_columns_.Apply(scratch.mixed.data(), 0, out);
}

void MaskUpsampler::PhotoRow(View<const float> mask, int64_t row, int64_t begin, Scratch& scratch,
                             std::span<float> out) const {
  const LinearAxis::Place& place = photo_rows_[row];
  scratch.upper.resize(static_cast<size_t>(geometry_.seen_width));
  scratch.lower.resize(static_cast<size_t>(geometry_.seen_width));
  InputRow(mask, place.low, scratch, scratch.upper);
  InputRow(mask, place.high, scratch, scratch.lower);
  MixRows(scratch.upper.data(), scratch.lower.data(), place.share, scratch.upper);
  photo_columns_.Apply(scratch.upper.data(), begin, out);
}

double MaskUpsampler::Bytes(const MaskGeometry& g) {
  return sizeof(LinearAxis::Place) * (static_cast<double>(g.input_height) + static_cast<double>(g.input_width) +
                                      static_cast<double>(g.height) + static_cast<double>(g.width));
}

}  // namespace qkv::app
