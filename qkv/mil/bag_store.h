// Bags of a cohort: checked, with what the model needs of them, and kept in memory as far as that is allowed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "qkv/mil/cohort.h"
#include "qkv/mil/network.h"

namespace qkv::mil {

class BagStore {
 public:
  /// Keeps up to `bytes` of bags. `cohort` must outlive this.
  BagStore(const Cohort& cohort, bool positions, int64_t bytes)
      : cohort_(cohort), positions_(positions), left_(bytes) {}

  struct Entry {
    Tensor<float> features;  // [tiles, D]
    Tensor<double> places;   // [tiles, 2], or empty
    BagInput<float> input() const { return {features, places.empty() ? View<const double>() : places.view()}; }
  };

  /// Reads all bags once. Returns a checksum of names, labels and contents, and sets width(). Throws Error that names
  /// the slide for an empty bag, another width, a value that is no number, or missing coordinates.
  uint64_t ReadAll(const std::function<void(int64_t done, int64_t total)>& progress);
  int64_t width() const { return width_; }
  int64_t most_tiles() const { return most_tiles_; }

  std::shared_ptr<const Entry> Get(int64_t slide);
  /// `wanted` tiles of a slide, see SampleTiles; all if wanted is 0.
  std::shared_ptr<const Entry> Sample(int64_t slide, int64_t wanted, uint64_t seed);

 private:
  std::shared_ptr<const Entry> Load(int64_t slide, uint64_t* checksum);

  const Cohort& cohort_;
  const bool positions_;
  int64_t left_, width_ = 0, most_tiles_ = 0;
  std::map<int64_t, std::shared_ptr<const Entry>> kept_;
};

}  // namespace qkv::mil
