#include "qkv/app/slides/slide_cohort.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/core/file.h"
#include "qkv/io/json.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;

std::optional<double> FindNumber(const slide::FeatureFile& file, const std::string& name) {
  const auto of_coords = slide::FindNumber(file.coord_attributes, name);
  return of_coords ? of_coords : slide::FindNumber(file.feature_attributes, name);
}

int64_t ToSide(double side) { return std::isfinite(side) && side >= 1 && side < 1e9 ? std::llround(side) : 0; }

// The least distance between neighbours in sorted values; 0 if all are equal.
int64_t LeastStep(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  int64_t least = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    const int64_t step = values[i] - values[i - 1];
    if (step > 0 && (least == 0 || step < least)) least = step;
  }
  return least;
}

// Tables name slides with the endings of their files, or without.
std::string WithoutSlideEnding(const std::string& name) {
  static constexpr std::array<std::string_view, 14> kEndings = {".ome.tiff", ".ome.tif", ".qptiff", ".tiff", ".tif",
                                                                ".svs",      ".ndpi",    ".mrxs",   ".scn",  ".bif",
                                                                ".czi",      ".svslide", ".dcm",    ".h5"};
  std::string lower = name;
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const std::string_view ending : kEndings) {
    if (lower.size() > ending.size() && lower.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  }
  return name;
}

std::optional<fs::path> FindFeatures(const fs::path& folder, const std::string& name) {
  // A name is one of a file, not a way out of the folder.
  if (name.find('/') != name.npos) return {};
  for (const std::string& stem : {name, WithoutSlideEnding(name)}) {
    if (fs::path path = folder / (stem + ".h5"); FileExists(path)) return path;
  }
  return {};
}

}  // namespace

int64_t SideAtLevel0(const slide::FeatureFile& file) {
  if (const auto side = FindNumber(file, "patch_size_level0")) return ToSide(*side);
  const auto size = FindNumber(file, "patch_size");
  if (const auto downsample = FindNumber(file, "downsample"); size && downsample) return ToSide(*size * *downsample);
  std::vector<int64_t> xs, ys;
  for (const auto& [x, y] : file.coords) xs.push_back(x), ys.push_back(y);
  const int64_t column = LeastStep(std::move(xs)), row = LeastStep(std::move(ys));
  return column == 0 || row == 0 ? std::max(column, row) : std::min(column, row);
}

mil::Cohort OpenCohort(const fs::path& folder, const fs::path& labels) {
  const std::vector<mil::LabelledSlide> table = mil::ReadLabels(labels);
  auto files = std::make_shared<std::vector<fs::path>>();
  size_t missing = 0;
  const mil::LabelledSlide* first = nullptr;
  for (const mil::LabelledSlide& row : table) {
    const std::optional<fs::path> file = FindFeatures(folder, row.slide);
    if (!file && ++missing == 1) first = &row;
    files->push_back(file.value_or(fs::path()));
  }
  if (missing > 0) {
    Fail(
        "{}:{}: no vectors of slide {} in {}: expected {}.h5 there{}; make them with qkv slide embed, or leave out the "
        "line",
        labels.string(), first->line, io::Quoted(first->slide), folder.string(), WithoutSlideEnding(first->slide),
        missing > 1 ? fmt::format(" (and of {} more slides)", missing - 1) : "");
  }
  return mil::MakeCohort(table, [files](int64_t slide) {
    slide::FeatureFile file = slide::ReadFeatureFile((*files)[static_cast<size_t>(slide)]);
    const int64_t side = SideAtLevel0(file);
    return mil::Bag{std::move(file.features), std::move(file.coords), side};
  });
}

}  // namespace qkv::app
