// Bags in memory with a planted lesion, for tests of training.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "qkv/core/rng.h"
#include "qkv/mil/cohort.h"

namespace qkv::mil {

/// Slides of 12 to 40 tiles on a grid, 8 features of noise; in those of the second class 3 tiles are lesions, which are
/// shifted in the first features. Two slides a patient.
inline Cohort PlantedCohort(int64_t patients, uint64_t seed = 1) {
  Cohort cohort;
  cohort.classes = {"benign", "tumour"};
  auto bags = std::make_shared<std::vector<Bag>>();
  Rng rng(seed);
  for (int64_t i = 0; i < 2 * patients; ++i) {
    const int64_t label = (i / 2) % 2, tiles = 12 + static_cast<int64_t>(rng.Next() % 29);
    Bag bag;
    bag.side = 256;
    bag.features = Tensor<float>({tiles, 8});
    for (float& value : bag.features.span()) value = static_cast<float>(rng.Normal());
    for (int64_t t = 0; t < tiles; ++t) bag.coords.push_back({256 * (t % 6), 256 * (t / 6)});
    for (int64_t lesion = 0; lesion < 3 * label; ++lesion) {
      float* const row = bag.features.view().row(static_cast<int64_t>(rng.Next() % static_cast<uint64_t>(tiles)));
      row[0] += 4, row[1] -= 4;
    }
    bags->push_back(std::move(bag));
    cohort.slides.push_back({"slide" + std::to_string(i), "patient" + std::to_string(i / 2), label});
  }
  cohort.load = [bags](int64_t slide) {
    const Bag& bag = (*bags)[static_cast<size_t>(slide)];
    return Bag{bag.features.Clone(), bag.coords, bag.side};
  };
  return cohort;
}

}  // namespace qkv::mil
