#include "qkv/mil/bag_store.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "qkv/core/checksum.h"
#include "qkv/core/hash.h"
#include "qkv/core/rng.h"
#include "qkv/core/work.h"
#include "qkv/io/json.h"
#include "qkv/mil/training.h"

namespace qkv::mil {

std::vector<int64_t> SampleTiles(int64_t tiles, int64_t wanted, uint64_t seed) {
  std::vector<int64_t> all(static_cast<size_t>(tiles));
  std::iota(all.begin(), all.end(), int64_t{0});
  if (wanted <= 0 || wanted >= tiles) return all;
  Rng rng(seed);
  for (int64_t i = 0; i < wanted; ++i) {
    const auto other = i + static_cast<int64_t>(rng.Next() % static_cast<uint64_t>(tiles - i));
    std::swap(all[static_cast<size_t>(i)], all[static_cast<size_t>(other)]);
  }
  all.resize(static_cast<size_t>(wanted));
  std::sort(all.begin(), all.end());
  return all;
}

std::shared_ptr<const BagStore::Entry> BagStore::Load(int64_t slide, uint64_t* checksum) {
  const Cohort::Slide& of = cohort_.slides[static_cast<size_t>(slide)];
  Bag bag = cohort_.load(slide);
  const std::string name = FormatShown("slide {}", io::Quoted(of.name));
  const Tensor<float>& x = bag.features;
  Require(x.rank() == 2 && x.dim(0) > 0 && x.dim(1) > 0,
          "mil: {} has vectors of shape {}, expected [tiles, D]; leave slides without tiles out of the table", name,
          x.shape());
  if (width_ == 0) width_ = x.dim(1);
  Require(x.dim(1) == width_, "mil: {} has vectors of {}, and others of {}; expected those of one encoder", name,
          x.dim(1), width_);
  Require(std::ranges::all_of(x.span(), [](float value) { return std::isfinite(value); }),
          "mil: {} has a value that is no number; embed it again", name);
  const bool fits = static_cast<int64_t>(bag.coords.size()) == x.dim(0);
  Require(fits || (bag.coords.empty() && !positions_), "mil: {} has {} coordinates for {} tiles{}", name,
          bag.coords.size(), x.dim(0), positions_ ? ", and the model reads positions; use positions none" : "");
  most_tiles_ = std::max(most_tiles_, x.dim(0));
  if (checksum != nullptr) {
    const std::string label =
        fmt::format("{}\n{}\n{}\n{}\n{}", of.name, of.patient, of.label, static_cast<int>(of.split), bag.side);
    *checksum = CombineChecksums(*checksum, Fnv1a().Add(label).value());
    *checksum = CombineChecksums(*checksum, Checksum(std::as_bytes(x.span())));
    *checksum = CombineChecksums(*checksum, Checksum(std::as_bytes(std::span(bag.coords))));
  }
  auto entry = std::make_shared<Entry>();
  if (positions_) entry->places = TilePlaces(bag.coords, bag.side);
  entry->features = std::move(bag.features);
  return entry;
}

uint64_t BagStore::ReadAll(const std::function<void(int64_t, int64_t)>& progress) {
  uint64_t checksum = 0;
  const auto slides = std::ssize(cohort_.slides);
  for (int64_t slide = 0; slide < slides; ++slide) {
    CheckCancelled();
    std::shared_ptr<const Entry> entry = Load(slide, &checksum);
    const int64_t bytes = entry->features.size() * static_cast<int64_t>(sizeof(float)) +
                          entry->places.size() * static_cast<int64_t>(sizeof(double));
    if (bytes <= left_) left_ -= bytes, kept_[slide] = std::move(entry);
    if (progress) progress(slide + 1, slides);
  }
  return checksum;
}

std::shared_ptr<const BagStore::Entry> BagStore::Get(int64_t slide) {
  const auto kept = kept_.find(slide);
  return kept != kept_.end() ? kept->second : Load(slide, nullptr);
}

std::shared_ptr<const BagStore::Entry> BagStore::Sample(int64_t slide, int64_t wanted, uint64_t seed) {
  std::shared_ptr<const Entry> all = Get(slide);
  const int64_t tiles = all->features.dim(0), D = all->features.dim(1);
  if (wanted <= 0 || wanted >= tiles) return all;
  const std::vector<int64_t> chosen = SampleTiles(tiles, wanted, seed);
  auto part = std::make_shared<Entry>();
  part->features = Tensor<float>::Uninitialised({wanted, D});
  if (!all->places.empty()) part->places = Tensor<double>({wanted, 2});
  for (int64_t i = 0; i < wanted; ++i) {
    const int64_t tile = chosen[static_cast<size_t>(i)];
    std::copy_n(all->features.view().row(tile), D, part->features.view().row(i));
    if (!part->places.empty()) std::copy_n(all->places.view().row(tile), 2, part->places.view().row(i));
  }
  return part;
}

}  // namespace qkv::mil
