// Scores of a slide's tiles, from vectors that exist and a head, or from a table.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "qkv/mil/head.h"
#include "qkv/slide/files/feature_file.h"
#include "qkv/slide/heatmap/heat_grid.h"
#include "qkv/slide/read/slide.h"

namespace qkv::app {

struct SlideScores {
  std::vector<std::array<int64_t, 2>> coords;  // [tiles] at level 0
  std::vector<float> scores;                   // [tiles]
  int64_t side = 0;                            // of a tile at level 0
  std::map<std::string, double> answers;       // the head's probabilities, by class

  slide::TileScores tiles() const { return {coords, side, scores}; }
};

/// Side of a tile at level 0 by the attributes of TRIDENT's, qkv's (patch_size_level0) or CLAM's file (patch_size at
/// patch_level); `side`, if it is given. Throws Error, which names the option, if neither says it.
int64_t TileSide(const slide::FeatureFile& file, const slide::SlideFacts& facts, std::optional<int64_t> side);

/// What a head says of these vectors. branch: name or number of the class, or number of the attention head, whose
/// attention is meant; empty: as ShownAttention. Throws Error for another branch or a file without tiles.
SlideScores ScoreTiles(slide::FeatureFile file, int64_t side, const mil::Head& head, const std::string& branch);

/// Throws Error if `attributes` of the coordinates say that their slide has another size than this one, or a tile lies
/// outside of it: a map of another slide's scores would look like one of this slide's.
void CheckSlideOfScores(const SlideScores& scores, const slide::Attributes& attributes, const slide::SlideFacts& facts);

/// A CSV with the columns x, y (at level 0) and score, in any order and among others. Throws Error with the line for
/// anything else.
SlideScores ReadScores(const std::filesystem::path& file, int64_t side);

}  // namespace qkv::app
