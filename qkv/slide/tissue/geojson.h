// Areas and tiles as GeoJSON that QuPath opens (qupath.github.io, "GeoJSON"), and areas back from it.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
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

/// Writes a FeatureCollection, whole or not at all; gzipped if `path` ends in .gz. Numbers that are not finite are left
/// out of measurements. Throws Error with the system's reason.
void WriteGeoJson(const std::filesystem::path& path, std::span<const Feature> features);
/// The same for features that are made one by one: `next` fills the feature that it is given, whose memory is reused,
/// or returns false after the last.
void WriteGeoJson(const std::filesystem::path& path, const std::function<bool(Feature&)>& next);

/// The areas of a file of QuPath's, qkv's or TRIDENT's, gzipped or not: Polygon and MultiPolygon of a
/// FeatureCollection, a Feature, a geometry or a list of these. `note` names what is left out: other geometries,
/// detections, cells, classes that QuPath ignores ("Ignore*"), rings of fewer than three points. Throws Error for
/// anything else, and for points further than 1e9 pixels from the slide's corner.
Tissue ReadGeoJson(const std::filesystem::path& path, const std::function<void(const std::string&)>& note = {});
/// The same for a file's bytes; messages begin with `where`.
Tissue ParseGeoJson(std::span<const std::byte> bytes, std::string_view where,
                    const std::function<void(const std::string&)>& note = {});

}  // namespace qkv::slide
