// The images of a request: files, folders, standard input, or pixels in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "qkv/app/open/note.h"
#include "qkv/core/error.h"
#include "qkv/core/tensor.h"
#include "qkv/image/image.h"

namespace qkv::app {

struct ImageList {
  std::vector<std::filesystem::path> files;
  /// [files, height, width, channels] if the images are in memory; `files` are then their names.
  View<const uint8_t> pixels = {};
  int failed = 0;  // folders without an image; a note names each
};

/// The images are not of the kind that the model is for. Ends the work on all images; any other error leaves out one.
class WrongImages : public Error {
 public:
  using Error::Error;
};

/// Looks at a decoded image; may throw WrongImages. Called from several threads at a time.
using InspectImage = std::function<void(const std::filesystem::path& file, const image::Image& image)>;

/// The files to read: files in the order given, images of folders recursively and sorted by name, "-" for stdin. A
/// missing file is listed too: reading it fails. `note` receives how many files of folders have other endings, not
/// counting notes and tables. Throws Error if no file is left.
ImageList CollectImages(const std::vector<std::string>& paths, const Note& note);

/// `count` files (or all, if there are fewer) at equal distances of a list without pixels: folders are sorted by class,
/// so the first ones would be of one class.
ImageList SampleEvenly(const ImageList& images, int64_t count);

}  // namespace qkv::app
