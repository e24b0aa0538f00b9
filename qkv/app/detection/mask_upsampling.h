// Masks of a model at the size of a photo: linear interpolation to the model's input, whose part that shows the photo
// is interpolated to the photo, as transformers' EomtImageProcessor does with torch's interpolate.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/core/tensor.h"

namespace qkv::app {

/// Linear interpolation of `from` samples to `to`, corners not aligned: sample i of the result lies between two.
class LinearAxis {
 public:
  LinearAxis() = default;
  LinearAxis(int64_t from, int64_t to);

  // 32 bits each: there is a Place for each pixel of a side, which may have a hundred million.
  struct Place {
    int32_t low = 0, high = 0;
    float share = 0;  // of the value at `high`
  };
  const Place& operator[](int64_t i) const { return places_[static_cast<size_t>(i)]; }
  int64_t size() const { return std::ssize(places_); }

  /// Samples [begin, begin + out.size()) of the result. row: of `from` samples.
  void Apply(const float* row, int64_t begin, std::span<float> out) const;

 private:
  std::vector<Place> places_;
};

/// out = low + (high − low) · share, element by element.
void MixRows(const float* low, const float* high, float share, std::span<float> out);

/// Sizes in pixels.
struct MaskGeometry {
  int64_t mask_height = 0, mask_width = 0;    // of a mask, as the model gives it
  int64_t input_height = 0, input_width = 0;  // of the model's input
  int64_t seen_height = 0, seen_width = 0;    // of the resized photo, at the top left of the input
  int64_t height = 0, width = 0;              // of the photo
};

/// Interpolates rows of masks. Several threads may use one, each with scratch memory of its own.
class MaskUpsampler {
 public:
  explicit MaskUpsampler(const MaskGeometry& geometry);

  struct Scratch {
    std::vector<float> mixed, upper, lower;
  };
  /// A row of the model's input, from a mask [mask_height, mask_width]; out: the first out.size() columns.
  void InputRow(View<const float> mask, int64_t row, Scratch& scratch, std::span<float> out) const;
  /// Columns [begin, begin + out.size()) of a row of the photo.
  void PhotoRow(View<const float> mask, int64_t row, int64_t begin, Scratch& scratch, std::span<float> out) const;
  /// Memory of one, in bytes.
  static double Bytes(const MaskGeometry& geometry);

 private:
  MaskGeometry geometry_;
  LinearAxis input_rows_, input_columns_, photo_rows_, photo_columns_;
};

}  // namespace qkv::app
