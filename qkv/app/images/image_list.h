// The images of a request: files, folders, standard input, or what is in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "qkv/app/open/note.h"
#include "qkv/core/error.h"
#include "qkv/image/image.h"
#include "qkv/image/workspace.h"

namespace qkv::app {

/// Writes the image of this index, of images that are not all in files; may throw WrongImages. Called from several
/// threads at a time.
using ReadStored =
    std::function<void(size_t index, const image::DecodeOptions& options, image::Workspace&, image::Image& image)>;

struct ImageList {
  std::vector<std::filesystem::path> files;
  ReadStored read = {};  // empty: the images are in `files`; else those are their names
  int failed = 0;        // folders without an image; a note names each
};

/// The images are not of the kind that the model is for, or nothing can be read any more. Ends the work on all images;
/// any other error leaves out one.
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

/// `count` files (or all, if there are fewer) at equal distances of a list of files: folders are sorted by class,
/// so the first ones would be of one class.
ImageList SampleEvenly(const ImageList& images, int64_t count);

}  // namespace qkv::app
