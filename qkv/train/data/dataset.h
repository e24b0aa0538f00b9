// What a model learns from: images with their classes, however they lie on disk. Which format that is, is found out by
// looking. Not here: decoding (image_store.h), and what is done to images (augment.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/core/tensor.h"

namespace qkv::train {

/// Images that belong together, as files or as pixels.
struct Split {
  std::string name;                          // "train", "val", "test", or "all" where the data is in one piece
  std::vector<int64_t> labels;               // [n], 0 … classes − 1
  std::vector<std::filesystem::path> files;  // [n], or empty: then the images are
  Tensor<uint8_t> pixels;                    // [n, height, width, channels], 1 or 3 channels

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
  /// A file's path, or "test image 17".
  std::string NameOf(int64_t i) const;
};

struct Dataset {
  std::string format;                // what it was found to be: "image folder", "CIFAR-10, binary", "MNIST, IDX", "CSV"
  std::vector<std::string> classes;  // names by label: as numbers where all are, else by the alphabet
  std::vector<Split> splits;

  /// Null where there is none of this name.
  const Split* Find(std::string_view name) const;
};

/// `path` is one of
///   a folder with train/CLASS/… and val/ or test/ of the same kind, or with CLASS/… itself ("all");
///   a folder, .tar or .tar.gz of CIFAR-10's or CIFAR-100's binary version (of the latter's labels the fine ones);
///   a folder of MNIST's IDX files, perhaps .gz;
///   a CSV or TSV file of paths and labels, and perhaps a column "split"; paths are relative to its folder.
/// Throws Error that says what was found instead, or what is wrong with a file.
Dataset OpenDataset(const std::filesystem::path& path);

/// "image folder: train (60,000 images), test (10,000), 10 classes"
std::string Summary(const Dataset& dataset);

/// What training takes of a data set.
struct TrainingData {
  std::vector<std::string> classes;
  Split train, validation;
  std::vector<std::string> notes;  // a sentence each: what was held out, classes that validation lacks
};

/// Training on "train" (or "all"), validated on "val", else on "test", else on a share of each class of the training
/// images, drawn by the seed. Throws Error for fewer than two classes, for classes without a training image, and where
/// nothing is there to validate on.
TrainingData ForTraining(Dataset dataset, double validation_share, uint64_t seed);

/// Tells sets of images apart: classes, the images' names in order and their labels, wherever they lie.
uint64_t Fingerprint(const TrainingData& data);

/// The split of this name; for an empty name "test", else "val", else "all". Throws Error that says which there are.
const Split& ForEvaluation(const Dataset& dataset, std::string_view name = {});

}  // namespace qkv::train
