// Which images a subcommand is given, and how they are to be read. What is done with them: cli/pipeline.h.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/command.h"
#include "qkv/image/image.h"

namespace qkv::cli {

struct ImageOptions {
  std::vector<std::string> paths;  // files, folders, or "-" for stdin
  int batch = 0;                   // 0: what suits the model
  bool ignore_exif = false;
  std::string window;  // "LOW,HIGH" or empty
  int64_t max_pixels = image::DecodeOptions().max_pixels;
  bool quiet = false;

  void AddTo(Command command, bool required = true);
  /// The same without --batch.
  void AddReading(Command command, bool required = true);
  void AddHow(Command command);  // neither paths nor --batch
  void AddBatch(Command command);
  image::DecodeOptions Decode() const;
};

struct ImageList {
  std::vector<std::filesystem::path> files;
  View<const uint8_t> pixels = {};  // [files, height, width, channels] where the images are no files; those name them
  int failed = 0;                   // folders without an image, each named on stderr
};

/// The files to read: files as given, folders recursively and sorted by name, images only.
/// Throws Error when nothing is left to read.
ImageList CollectImages(const std::vector<std::string>& paths);

/// `count` of the files of a list without pixels (all, where there are no more), from all over the list: folders are
/// sorted by class.
ImageList Spread(const ImageList& images, int64_t count);

}  // namespace qkv::cli
