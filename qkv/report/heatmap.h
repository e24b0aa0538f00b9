// Heatmaps of matrices.
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
  std::string row_name, column_name;       // axis names
  std::vector<std::string> rows, columns;  // names; may be empty
  int64_t row_count = 0, column_count = 0;
  std::vector<double> values;  // row by row; kMissing: an empty cell
  image::ColourMap map = image::ColourMap::kSequential;
  double low = 0, high = 0;  // range of the colour scale; taken from the values unless low < high
  std::string value_name;
  bool numbers = false;  // write values into the cells
  double cell = 0;       // side of a cell in pixels; 0: automatic
};
std::string Draw(const Heatmap& chart);

}  // namespace qkv::report
