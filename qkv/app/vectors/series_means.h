// One vector of a scan: the mean of those of its slices.
#pragma once

#include <filesystem>
#include <utility>
#include <vector>

#include "qkv/app/images/series.h"
#include "qkv/app/vectors/embed.h"

namespace qkv::app {

class SeriesMeans {
 public:
  /// `series` must outlive this. unit_length: the means become of length 1, as the vectors are.
  SeriesMeans(const SeriesList& series, bool unit_length);

  /// Throws Error if its shape is not that of the slices before.
  void Add(const Embedding& slice);
  /// The mean of each series with a readable slice, named by it, and the file of its first one.
  std::vector<std::pair<Embedding, std::filesystem::path>> All() const;

 private:
  struct Sum {
    Shape shape;
    std::vector<double> values;
    int64_t slices = 0;
    size_t first = 0;  // slice
  };

  const SeriesList& series_;
  const bool unit_length_;
  std::vector<Sum> sums_;  // as series_.names
};

}  // namespace qkv::app
