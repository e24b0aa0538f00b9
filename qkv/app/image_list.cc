#include "qkv/app/image_list.h"

#include <algorithm>

#include "qkv/core/error.h"
#include "qkv/image/find.h"

namespace qkv::app {
namespace fs = std::filesystem;

ImageList CollectImages(const std::vector<std::string>& paths, const Note& note) {
  ImageList images;
  std::string problems;
  for (const std::string& path : paths) {
    if (path == "-" || !fs::is_directory(path)) {
      images.files.emplace_back(path);
      continue;
    }
    std::string problem;
    try {
      const std::vector<fs::path> found = image::ImageFinder({.skip_unreadable = true}).Find(path);
      images.files.insert(images.files.end(), found.begin(), found.end());
      if (!found.empty()) continue;
      problem = FormatShown("{}: no images in this folder (JPEG, PNG, WebP, GIF, BMP, TIFF, HEIC, AVIF, PPM)", path);
    } catch (const Error& error) {
      problem = error.what();
    }
    problems += (problems.empty() ? "" : "\n") + problem;
    ++images.failed;
  }
  Require(!images.files.empty(), "{}", EscapedText{problems});
  if (!problems.empty()) Notify(note, problems);
  return images;
}

ImageList SampleEvenly(const ImageList& images, int64_t count) {
  const int64_t all = std::ssize(images.files), taken = std::min<int64_t>(all, count);
  ImageList chosen{.failed = images.failed};
  for (int64_t i = 0; i < taken; ++i) chosen.files.push_back(images.files[static_cast<size_t>(i * all / taken)]);
  return chosen;
}

}  // namespace qkv::app
