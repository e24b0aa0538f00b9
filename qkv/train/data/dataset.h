// Opens a data set for training: images with class labels, in any supported format. The format is detected from the
// files. Not here: decoding (image_store.h) and augmentation (augment.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/core/tensor.h"

namespace qkv::train {

/// One split of a data set, as image files or as pixels.
struct Split {
  std::string name;                          // "train", "val", "test", or "all" if the data is not split
  std::vector<int64_t> labels;               // [n], 0 … classes − 1
  std::vector<std::filesystem::path> files;  // [n], or empty if `pixels` holds the images
  Tensor<uint8_t> pixels;                    // [n, height, width, channels], 1 or 3 channels

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
  /// A file's path, or "test image 17".
  std::string SampleName(int64_t i) const;
};

struct Dataset {
  std::string format;                // detected format: "image folder", "CIFAR-10, binary", "MNIST, IDX", "CSV"
  std::vector<std::string> classes;  // names by label: sorted as numbers if all are numbers, else alphabetically
  std::vector<Split> splits;

  /// Returns null if no split has this name.
  const Split* Find(std::string_view name) const;
};

/// `path` is one of
///   a folder with train/CLASS/… and val/ or test/ alike, or with CLASS/… directly ("all");
///   a folder, .tar or .tar.gz of CIFAR-10's or CIFAR-100's binary version (CIFAR-100: the fine labels);
///   a folder of MNIST's IDX files, each optionally .gz;
///   a CSV or TSV file of paths and labels with an optional column "split"; paths are relative to its folder.
/// Throws Error that says what was found instead, or what is wrong with a file.
Dataset OpenDataset(const std::filesystem::path& path);

/// "image folder: train (60,000 images), test (10,000), 10 classes"
std::string Summary(const Dataset& dataset);

/// The splits that training uses.
struct TrainingData {
  std::vector<std::string> classes;
  Split train, validation;
  std::vector<std::string> notes;  // one sentence each: images held out, classes missing from validation
};

/// Trains on "train" (or "all"). Validates on "val", else on "test", else on a share of each class of the training
/// images, drawn by the seed. Throws Error for fewer than two classes, for classes without a training image, and if no
/// image is left for validation.
TrainingData ForTraining(Dataset dataset, double validation_share, uint64_t seed);

/// Hash of the classes, the images' names in order, and their labels. It does not depend on the data set's location.
uint64_t Fingerprint(const TrainingData& data);

/// Returns the split of this name; for an empty name "test", else "val", else "all". Throws Error that lists the
/// splits.
const Split& ForEvaluation(const Dataset& dataset, std::string_view name = {});

}  // namespace qkv::train
