// How much of each tile of a row tissue covers: exact areas of the union of polygons, without a polygon library.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/slide/tissue/tissue.h"

namespace qkv::slide {

/// Squares beside each other: tile i is [lefts[i], lefts[i] + side] × [top, top + side].
struct TileRow {
  double top = 0, side = 0;
  std::span<const double> lefts;  // ascending
};

/// Goes over tissue from top to bottom. A point is covered if it is in an odd number of the rings of a polygon, for any
/// polygon: so polygons may overlap and holes have either orientation.
class Coverage {
 public:
  explicit Coverage(const Tissue& tissue);

  /// Rows must come with ascending tops. areas: [lefts.size()], in square pixels. touched, if any: whether a tile has a
  /// point of the tissue, its border included.
  void Next(const TileRow& row, std::vector<double>& areas, std::vector<uint8_t>* touched);

 private:
  // From the upper to the lower end.
  struct Edge {
    Point upper, lower;
    uint32_t polygon;
    double At(double y) const;  // x
  };
  // An edge that crosses a slab: x at its top, at its bottom, and just below its top.
  struct Crossing {
    const Edge* edge;
    double from = 0, to = 0, probe = 0;
  };

  void Slab(double top, double bottom, const TileRow& row, std::vector<double>& areas);
  void Sort();
  void AddSlab(double height, const TileRow& row, std::vector<double>& areas);
  void AddEdge(const Crossing& edge, double weight, const TileRow& row, std::vector<double>& areas);
  void Touch(const TileRow& row, std::vector<uint8_t>& touched) const;

  std::vector<Edge> edges_;          // by their upper ends
  size_t next_ = 0;                  // first edge that no row has reached
  std::vector<const Edge*> live_;    // of the current row, by their upper ends
  std::vector<Crossing> crossings_;  // of the current slab, from left to right
  size_t sorted_ = 0;                // of these, in the order of the slab before
  std::vector<uint8_t> inside_;      // [polygons], while a line is crossed
  std::vector<double> full_;         // [tiles + 1], changes of what lies right of edges
};

}  // namespace qkv::slide
