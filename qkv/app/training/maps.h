// Attention maps of the same few images after each evaluation of a training run, in RUN/maps/.
//
//   epoch-0007.png   a row for each image, a column for each block: what the class token attends to (without one, the
//                    mean of the patches), mean of the heads
//   epoch-0007.npy   the same as numbers, [images, blocks, rows, columns of patches]
//   epochs.png       the last block over the epochs
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "qkv/app/open/note.h"
#include "qkv/train/data/dataset.h"
#include "qkv/train/data/image_store.h"
#include "qkv/train/run/image_run.h"

namespace qkv::app {

struct MapImages {
  train::Split images;
  std::vector<std::string> names;  // [images]: of their classes, or files
};

/// The images that `what` names: a number of validation images, drawn by the seed, or an image or a folder of images.
/// note: as CollectImages. Throws Error if there are none, or too many for a picture.
MapImages ChooseMapImages(const std::string& what, const train::TrainingData& data, uint64_t seed, const Note& note);

class TrainMaps {
 public:
  /// `folder` is created when something is drawn: the run that it belongs to may not start.
  TrainMaps(std::filesystem::path folder, MapImages images);
  TrainMaps(const TrainMaps&) = delete;
  TrainMaps& operator=(const TrainMaps&) = delete;

  /// Writes the files of this epoch, each whole or not at all. Throws Error if they cannot be written, or if no image
  /// can be read.
  void Draw(const train::EvaluatedModel& model);

 private:
  std::filesystem::path MapFile(int64_t epoch, const char* ending) const;
  void Open(const train::EvaluatedModel& model);
  void DrawEpochs(const model::VitConfig& config, int64_t last) const;

  const std::filesystem::path folder_;
  const MapImages chosen_;
  std::optional<train::ImageStore> store_;  // as the model sees them
  std::vector<std::string> names_;          // of the readable images
};

}  // namespace qkv::app
