// A training run as a user asks for it: the data, the configuration, the folder with its pictures. A library of its
// own, qkv_training, beside qkv_evaluation.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "qkv/app/open/note.h"
#include "qkv/app/training/maps.h"
#include "qkv/train/communicator.h"
#include "qkv/train/data/dataset.h"
#include "qkv/train/run/config.h"
#include "qkv/train/run/image_run.h"
#include "qkv/train/run/run_folder.h"

namespace qkv::app {

struct RunRequest {
  std::string data = {};                      // DATA of `qkv train`
  std::optional<train::Dataset> images = {};  // in place of what `data` names
  std::filesystem::path folder;
  train::Settings settings = {};  // the key "model" may be an id of the hub
  bool resume = false;
};

/// Neither copied nor moved.
class TrainingRun {
 public:
  /// Opens the data, resolves the configuration (of a resumed run that which it began with, with the changes that are
  /// allowed), and makes or opens the folder. With several `processes` all call this; rank 0 alone makes the folder.
  /// note: what was found and chosen. Throws Error for data, settings or a folder that cannot be used; no file has
  /// changed then.
  TrainingRun(RunRequest request, const Note& note, train::Communicator& processes);
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  const train::TrainConfig& config() const { return config_; }
  const train::RunFolder& folder() const { return *folder_; }

  /// Trains as train::Train. observer.note also gets the model's size and what is to be done. Rank 0 draws the folder's
  /// pictures, in place of observer.evaluated.
  train::Outcome Train(train::Observer observer);

 private:
  train::Communicator& processes_;
  std::variant<train::TrainingData, train::SequenceData, train::PairData> data_;
  train::TrainConfig config_;
  std::unique_ptr<train::RunFolder> folder_;
  std::optional<MapImages> maps_;
};

}  // namespace qkv::app
