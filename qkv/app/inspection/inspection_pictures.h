// The pictures of the page of qkv qk inspect, of all heads of a part.
#pragma once

#include <string>
#include <vector>

#include "qkv/app/inspection/inspection.h"
#include "qkv/app/inspection/inspection_words.h"
#include "qkv/image/colour_map.h"
#include "qkv/report/charts.h"

namespace qkv::app::heads {

using Circuit = inspect::Circuit inspect::HeadWeights::*;

/// Colours of a heatmap and what they mean. The range comes from the values unless low < high.
struct Scale {
  std::string name;
  image::ColourMap map = image::ColourMap::kSequential;
  double low = 0, high = 0;
};
inline const Scale kSigned{"", image::ColourMap::kDiverging, -1, 1};
inline const Scale kShare{"share", image::ColourMap::kSequential, 0, 1};
/// From nothing to the greatest of these: shares that are all small.
Scale FromZero(const Values& values);

/// Pictures beside each other, as many as there is room for.
std::string SideBySide(const std::vector<std::string>& pictures);
/// A cell for each head, blocks downwards.
std::string DrawHeatmap(const InspectedPart& part, const std::string& title, const Scale& scale, const Values& values);
/// One small plot a block, with all its heads: σ_i / σ_1 over i.
std::string Spectra(const InspectedPart& part, const char* title, Circuit circuit);
/// λ / |λ_1| of one head's QK circuit, in the complex plane.
std::string Eigenvalues(const InspectedPart& part, size_t i, const std::string& what);
/// A mark for each head, coloured by the third of the blocks that it is in.
std::string DrawScatter(const InspectedPart& part, const Values& x, const Values& y, const report::Axis& x_axis,
                        const report::Axis& y_axis, const std::string& title);

}  // namespace qkv::app::heads
