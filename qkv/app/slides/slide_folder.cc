#include "qkv/app/slides/slide_folder.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "qkv/core/error.h"

namespace qkv::app {
namespace {

// As TRIDENT: "20x_256px_0px_overlap"; tiles by microns a pixel have no name there.
std::string NameOfGrid(const slide::GridOptions& grid) {
  const std::string scale =
      grid.mpp ? fmt::format("{}mpp", *grid.mpp) : fmt::format("{}x", grid.magnification.value_or(20));
  return fmt::format("{}_{}px_{}px_overlap", scale, grid.tile, grid.overlap);
}

}  // namespace

SlideFolder::SlideFolder(std::filesystem::path root, const slide::GridOptions& grid)
    : root_(std::move(root)), tiles_(root_ / NameOfGrid(grid)) {}

void SlideFolder::Prepare(const std::filesystem::path& file) {
  const std::filesystem::path folder = file.parent_path();
  if (folder.empty()) return;  // the working directory
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  Require(!error, "slide: cannot make the folder {}: {}", folder.string(), error.message());
}

}  // namespace qkv::app
