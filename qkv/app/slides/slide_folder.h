// Where results of slides lie: TRIDENT's folders, so that what reads its results reads these.
#pragma once

#include <filesystem>
#include <string>

#include "qkv/slide/tissue/grid.h"

namespace qkv::app {

class SlideFolder {
 public:
  SlideFolder(std::filesystem::path root, const slide::GridOptions& grid);

  const std::filesystem::path& root() const { return root_; }
  // Of the slide `name`. The folders are made when something is written (Prepare).
  std::filesystem::path Tissue(const std::string& name) const {
    return root_ / "contours_geojson" / (name + ".geojson");
  }
  std::filesystem::path Thumbnail(const std::string& name) const { return root_ / "thumbnails" / (name + ".webp"); }
  std::filesystem::path Contours(const std::string& name) const { return root_ / "contours" / (name + ".webp"); }
  std::filesystem::path State(const std::string& name) const { return States() / (name + ".json"); }
  std::filesystem::path States() const { return root_ / "slides"; }
  std::filesystem::path Coords(const std::string& name) const { return tiles_ / "patches" / (name + "_patches.h5"); }
  std::filesystem::path Features(const std::string& encoder, const std::string& name) const {
    return tiles_ / ("features_" + encoder) / (name + ".h5");
  }
  std::filesystem::path Answers(const std::string& head, const std::string& name) const {
    return tiles_ / ("slide_features_" + head) / (name + ".h5");
  }
  std::filesystem::path Heatmaps(const std::string& head) const { return tiles_ / ("heatmaps_" + head); }

  /// Makes the folder of a file. Throws Error with the system's reason.
  static void Prepare(const std::filesystem::path& file);

 private:
  std::filesystem::path root_, tiles_;
};

}  // namespace qkv::app
