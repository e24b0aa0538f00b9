// The page of `qkv attend -o out.html`: a photo on which a patch shows, when touched, where it looks. One file that
// needs nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "qkv/image/rect.h"
#include "qkv/inspect/maps.h"

namespace qkv::cli {

struct AttendPage {
  std::string title, model;
  std::string photo_png;  // at any scale
  int64_t photo_height = 0, photo_width = 0;
  image::Rect where;  // the patches, in these pixels
  inspect::TokenGrid grid;
  inspect::Query query;  // shown first
  std::vector<std::string> layers, heads;
  View<const float> weights;  // [layers, heads, N, N]
};

/// Weights are stored as a byte each: the square root of their share of the row's greatest.
std::string Html(const AttendPage& page);

}  // namespace qkv::cli
