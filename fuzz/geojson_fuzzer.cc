// Areas of tissue as GeoJSON, gzipped or not: each file is read or refused with an Error; what is read is written and
// read to the same, and tiles lie on the slide.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "qkv/core/error.h"
#include "qkv/core/work.h"
#include "qkv/slide/tissue/geojson.h"
#include "qkv/slide/tissue/grid.h"

namespace {

using namespace qkv;
using namespace qkv::slide;

void Check(bool ok) {
  if (!ok) std::abort();
}

Tissue Parse(const uint8_t* data, size_t size) {
  try {
    return ParseGeoJson(std::as_bytes(std::span(data, size)), "fuzz");
  } catch (const Error&) {  // what a bad file should do
    return {};
  }
}

void CheckRoundTrip(const Tissue& tissue) {
  static const std::string path =
      (std::filesystem::temp_directory_path() / ("qkv-geojson-" + std::to_string(::getpid()) + ".geojson")).string();
  size_t index = 0;
  WriteGeoJson(path, [&](Feature& feature) {
    if (index == tissue.polygons.size()) return false;
    feature.area = tissue.polygons[index++];
    return true;
  });
  const Tissue again = ReadGeoJson(path);
  std::filesystem::remove(path);
  Check(again.polygons.size() == tissue.polygons.size());
  for (size_t i = 0; i < again.polygons.size(); ++i) {
    Check(again.polygons[i].outer == tissue.polygons[i].outer && again.polygons[i].holes == tissue.polygons[i].holes);
  }
}

void CheckGrid(const Tissue& tissue, double min_tissue) {
  SlideFacts facts;
  facts.levels = {{5000, 3000, 1}, {1250, 750, 4}};
  facts.mpp_x = facts.mpp_y = 0.25;
  try {
    const WorkBudget budget(20'000'000, "fuzz");
    const Grid grid = PlanGrid(facts, tissue, {.min_tissue = min_tissue});
    Check(grid.coords.size() <= 10 * 6);
    for (const auto& [x, y] : grid.coords) Check(x >= 0 && x < 5000 && y >= 0 && y < 3000);
  } catch (const Error&) {  // beyond the budget
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Tissue tissue = Parse(data, size);
  if (tissue.polygons.empty()) return 0;
  CheckRoundTrip(tissue);
  for (const double min_tissue : {0.0, 0.5}) CheckGrid(tissue, min_tissue);
  return 0;
}
