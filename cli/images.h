// Images from paths: folders walked, files decoded and preprocessed by threads ahead of the computation, in batches.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "qkv/image/image.h"
#include "qkv/model/model.h"

namespace qkv::cli {

struct ImageOptions {
  std::vector<std::string> paths;  // files, folders, or "-" for stdin
  int batch = 8;
  bool ignore_exif = false;
  std::string window;  // "LOW,HIGH" or empty
  int64_t max_pixels = image::DecodeOptions().max_pixels;
  bool quiet = false;

  void AddTo(CLI::App& command, bool required = true);
  image::DecodeOptions Decode() const;
};

struct ImageList {
  std::vector<std::filesystem::path> files;
  int failed = 0;  // folders without an image, each named on stderr
};

/// The files to read: files as given, folders recursively and sorted by name, images only.
/// Throws Error when nothing is left to read.
ImageList CollectImages(const std::vector<std::string>& paths);

struct Batch {
  std::vector<std::string> paths;  // of its images, B
  Tensor<float> storage;           // room for a full batch
  View<const float> pixels;        // [B, channels, height, width]
};

/// Calls `use` for batches of consecutive images of equal shape, in order, while later ones are being decoded.
/// A file that cannot be read is named on stderr and left out; progress shows on a terminal's stderr.
/// Returns how many files and folders could not be read. Throws Error when the model takes no images.
int ForEachBatch(const ImageOptions& options, const ImageList& images, const model::Model& model,
                 const std::function<void(const Batch&)>& use);

}  // namespace qkv::cli
