// Which slides a user means: files and folders, their scales where they say none, and a part of them for one machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "qkv/app/open/note.h"

namespace qkv::app {

struct SlideEntry {
  std::filesystem::path path;
  std::string name;           // of its results: the file's name without ending, unique in a list
  std::optional<double> mpp;  // microns a pixel, of a slide that does not say
};

/// Part `index` of `count`, from 0: slides index, index + count, … of the sorted list.
struct Shard {
  int64_t index = 0, count = 1;
};

/// Parses "2/8", the second of eight. Throws Error that begins with `option` otherwise.
Shard ParseShard(const std::string& text, const std::string& option);

/// Slides of files and folders, folders recursively and sorted by path. A folder with DICOM files is one slide, named
/// after the folder: a scanner writes its levels as files of one series. `mpp_file`: a CSV with the columns wsi (name
/// or path) and mpp; empty: none. Throws Error if a path is missing, no slide is found, two have one name, or a line of
/// the CSV is wrong; `note` receives lines of it that no slide has.
std::vector<SlideEntry> CollectSlides(const std::vector<std::string>& paths, const std::string& mpp_file,
                                      const Note& note);

/// The slides of one part.
std::vector<SlideEntry> TakeShard(const std::vector<SlideEntry>& slides, const Shard& shard);

}  // namespace qkv::app
