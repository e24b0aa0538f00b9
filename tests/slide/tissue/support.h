// Goldens of tissue and what tests of polygons share.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "qkv/core/file.h"
#include "qkv/io/json.h"
#include "qkv/slide/tissue/tissue.h"
#include "tests/support/files.h"

namespace qkv::slide {

inline io::Json TissueGolden(const std::string& name) {
  return io::ReadJson(SourceFolder() / "tests/slide/golden/tissue" / (name + ".json"));
}

inline std::vector<uint8_t> FromHex(const std::string& text) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

inline double AreaOfRing(const Ring& ring) {
  double twice = 0;
  for (size_t i = 0; i < ring.size(); ++i) {
    const Point &a = ring[i], &b = ring[(i + 1) % ring.size()];
    twice += a[0] * b[1] - b[0] * a[1];
  }
  return std::abs(twice) / 2;
}

inline double AreaOfTissue(const Tissue& tissue) {
  double area = 0;
  for (const Polygon& polygon : tissue.polygons) {
    area += AreaOfRing(polygon.outer);
    for (const Ring& hole : polygon.holes) area -= AreaOfRing(hole);
  }
  return area;
}

/// Whether a point is in an odd number of a polygon's rings.
inline bool InPolygon(const Polygon& polygon, double x, double y) {
  bool inside = false;
  const auto cross = [&](const Ring& ring) {
    for (size_t i = 0; i < ring.size(); ++i) {
      const Point &a = ring[i], &b = ring[(i + 1) % ring.size()];
      if ((a[1] <= y) != (b[1] <= y) && x < a[0] + (b[0] - a[0]) * (y - a[1]) / (b[1] - a[1])) inside = !inside;
    }
  };
  cross(polygon.outer);
  for (const Ring& hole : polygon.holes) cross(hole);
  return inside;
}

}  // namespace qkv::slide
