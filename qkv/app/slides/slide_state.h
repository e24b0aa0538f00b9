// What became of each slide of a run, one JSON file a slide: processes of a cluster write theirs, and the summary is
// made of all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "qkv/app/slides/slide_folder.h"
#include "qkv/io/json.h"

namespace qkv::app {

struct SlideState {
  std::string name, path;
  std::string error;  // why it failed; empty: it did not
  std::string format, reader;
  int64_t width = 0, height = 0;  // of level 0
  std::optional<double> mpp, magnification;
  double tissue = 0;                      // mm², or 0 without a scale
  int64_t tiles = 0, damaged = 0;         // of the grid; of these, could not be read
  std::vector<std::string> problems;      // of damaged tiles, the first few
  std::map<std::string, double> seconds;  // of "tissue", "tiles", "features", "heatmap"
  std::string encoder;
  // By head: the classes' probabilities, as it names them.
  std::map<std::string, std::map<std::string, double>> answers;
};

/// The fields above, without those that are empty.
io::Json ToJson(const SlideState& state);
/// Throws Error, prefixed with `where`, if it is not what ToJson makes.
SlideState ParseSlideState(const io::Json& json, const std::string& where);

/// Writes a state whole or not at all.
void SaveState(const SlideFolder& folder, const SlideState& state);
/// The state of a slide; an empty one if there is none yet. Throws Error as ParseSlideState.
SlideState ReadState(const SlideFolder& folder, const std::string& name);
/// All states of a folder, by name. Throws Error for a file that is none.
std::vector<SlideState> ReadStates(const SlideFolder& folder);

}  // namespace qkv::app
