#include "qkv/app/vectors/series_means.h"

#include <cmath>

namespace qkv::app {

SeriesMeans::SeriesMeans(const SeriesList& series, bool unit_length)
    : series_(series), unit_length_(unit_length), sums_(series.names.size()) {}

void SeriesMeans::Add(const Embedding& slice) {
  Sum& sum = sums_[series_.slices[slice.file].series];
  if (sum.slices == 0) {
    sum.shape = slice.shape;
    sum.values.assign(slice.values.size(), 0);
    sum.first = slice.file;
  }
  Require(sum.shape == slice.shape, "{}: the slices of a series have vectors of different shapes; expected one",
          slice.path);
  for (size_t i = 0; i < slice.values.size(); ++i) sum.values[i] += static_cast<double>(slice.values[i]);
  ++sum.slices;
}

std::vector<std::pair<Embedding, std::filesystem::path>> SeriesMeans::All() const {
  std::vector<std::pair<Embedding, std::filesystem::path>> all;
  for (size_t i = 0; i < sums_.size(); ++i) {
    const Sum& sum = sums_[i];
    if (sum.slices == 0) continue;
    double scale = static_cast<double>(sum.slices);
    if (unit_length_) {
      double squares = 0;
      for (const double value : sum.values) squares += value * value;
      if (squares > 0) scale = std::sqrt(squares);
    }
    Embedding mean{series_.names[i], sum.shape, {}, i};
    for (const double value : sum.values) mean.values.push_back(static_cast<float>(value / scale));
    all.emplace_back(std::move(mean), series_.slices[sum.first].file);
  }
  return all;
}

}  // namespace qkv::app
