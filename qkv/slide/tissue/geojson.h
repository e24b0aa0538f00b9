// Areas and tiles as GeoJSON that QuPath opens (qupath.github.io, "GeoJSON"), and areas back from it.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "qkv/slide/tissue/tissue.h"

namespace qkv::slide {

/// A class of QuPath's: its name, and its colour, RGB.
struct Classification {
  std::string name;
  std::array<uint8_t, 3> colour{};
};

/// One object: an annotation (an area), or a detection with measurements (a tile).
struct Feature {
  Polygon area;
  bool detection = false;
  Classification classification;
  std::vector<std::pair<std::string, double>> measurements;
};

/// Writes a FeatureCollection, whole or not at all; gzipped if `path` ends in .gz. Throws Error with the system's
/// reason.
void WriteGeoJson(const std::filesystem::path& path, std::span<const Feature> features);

/// The areas of a file of QuPath's, qkv's or TRIDENT's: Polygon and MultiPolygon of a FeatureCollection, a Feature or a
/// list of these. Other geometries are named in `note`. Throws Error for anything else.
Tissue ReadGeoJson(const std::filesystem::path& path, const std::function<void(const std::string&)>& note = {});

}  // namespace qkv::slide
