// Options that say which images a command reads and how, and the image pipeline with progress on stderr.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "qkv/app/images/pipeline.h"

namespace qkv::cli {

// Models to suggest: one that classifies, and one whose vectors and maps suit any picture.
inline constexpr std::string_view kClassifier = "google/vit-base-patch16-224", kEncoder = "facebook/dinov2-small";

using app::Batch;
using app::ImageList;
using app::Wanted;

struct ImageOptions {
  std::vector<std::string> paths;  // files, folders, or "-" for stdin
  int batch = 0;                   // 0: what suits the model
  bool ignore_exif = false;
  std::string window;  // "LOW,HIGH" or empty
  int64_t max_pixels = image::DecodeOptions().max_pixels;
  bool quiet = false;
  std::string suggested_model;  // if not empty: only digits may be given, otherwise this model is suggested

  void AddTo(Command command, bool required = true);
  /// All but --batch.
  void AddReading(Command command, bool required = true);
  /// All but the paths and --batch.
  void AddHow(Command command);
  void AddBatch(Command command);
  /// Throws Error, which begins with the command's name, if one of these but the paths was given: for text models.
  void RequireNone(std::string_view command) const;
  image::DecodeOptions Decode() const;
  /// Without -m the built-in digit classifier answers, but only for pictures that can be digits; otherwise the error
  /// suggests `suggested`.
  void DigitsWithout(const ModelOptions& model, std::string_view suggested);
  /// After DigitsWithout: throws WrongImages for a picture that cannot be a digit.
  void Inspect(const std::filesystem::path& file, const image::Image& image) const;
};

/// Adds --keep-header: the one way in which something of a DICOM header goes into results.
void AddKeepHeader(Command command, std::vector<std::string>* fields);

/// app::CollectImages; stderr names folders without images.
ImageList CollectImages(const std::vector<std::string>& paths);

/// Calls work() with options of a pipeline over the images, which shows progress on stderr if that is a terminal, and
/// names images that were left out; work() returns their number. Returns the number of files and folders left out.
int WithProgress(const ImageOptions& options, const ImageList& images,
                 const std::function<int(const app::PipelineOptions& pipeline)>& work);

/// app::ForEachBatch in WithProgress.
int ForEachBatch(const ImageOptions& options, const ImageList& images, const model::Model& model, Wanted wanted,
                 const std::function<void(const Batch&)>& use);

}  // namespace qkv::cli
