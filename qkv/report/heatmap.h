// A matrix as a picture.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "qkv/image/colour_map.h"
#include "qkv/report/charts.h"

namespace qkv::report {

/// A matrix as coloured cells.
struct Heatmap {
  Heading heading;
  std::string row_name, column_name;       // of the axes
  std::vector<std::string> rows, columns;  // names; may be empty
  int64_t row_count = 0, column_count = 0;
  std::vector<double> values;  // row by row; kMissing: an empty cell
  image::ColourMap map = image::ColourMap::kSequential;
  double low = 0, high = 0;  // of the colours; from the values unless low < high
  std::string value_name;
  bool numbers = false;  // written into the cells
  double cell = 0;       // its side in pixels; 0: what fits
};
std::string Draw(const Heatmap& chart);

}  // namespace qkv::report
