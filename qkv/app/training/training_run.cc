#include "qkv/app/training/training_run.h"

#include <fmt/format.h>

#include <functional>
#include <utility>

#include "qkv/app/open/hub.h"
#include "qkv/app/training/data_kind.h"
#include "qkv/app/training/run_pictures.h"
#include "qkv/core/parallel.h"
#include "qkv/report/text.h"
#include "qkv/train/run/initial_model.h"
#include "qkv/train/run/pair_model.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;

// Fills in the preset of a new run.
using Choose = std::function<void(train::Settings*)>;

// The configuration of a new run, or that of the run in the folder with the changes that are allowed.
train::TrainConfig MakeConfig(const RunRequest& request, const Note& note, const Choose& choose) {
  train::Settings given = request.settings;
  Require(!given.contains("minutes") || !(given.contains("steps") || given.contains("epochs")),
          "train: minutes is instead of {}; give one of them", given.contains("steps") ? "steps" : "epochs");
  const auto model = given.find("model");
  if (model != given.end() && !model->second.empty()) {
    const std::string named = std::exchange(model->second, FindModel(model->second).string());
    Require(
        !model->second.empty(),
        "train: {} is built in and has no files to start from; name a model's folder or file, or a model that comes as "
        "files, such as digits-shared",
        named);
  }
  const fs::path file = request.folder / train::RunFolder::kConfig;
  if (request.resume && fs::exists(file)) {
    const train::Settings begun = train::ReadRunSettings(file);
    const train::TrainConfig config = train::Resolve(train::MergeSettings(begun, given));
    train::RequireSameRun(train::Resolve(begun), config);
    return config;
  }
  if (request.resume) Notify(note, fmt::format("there is no run {} yet: a new one begins", request.folder.string()));
  choose(&given);
  return train::Resolve(given);
}

// The contents of a batch, in words.
std::string BatchesOf(const train::TrainingData& data) {
  return fmt::format("of {} images", report::WithCommas(data.train.size()));
}
std::string BatchesOf(const train::SequenceData& data) { return fmt::format("sequences of {} tokens", data.length); }
std::string BatchesOf(const train::PairData& data) {
  return fmt::format("tokens of {} pairs", report::WithCommas(data.train.size()));
}

// "vit-tiny, 5,717,416 parameters: 31,200 steps of 128 of 50,000 images"
std::string StartLine(const train::TrainConfig& config, const train::StartReport& start, const std::string& batches) {
  return fmt::format("{}, {} parameters: {} of {} {}{}", config.model.empty() ? config.preset : config.model,
                     report::WithCommas(start.parameters),
                     start.steps > 0 ? report::WithCommas(start.steps) + " steps"
                                     : fmt::format("the steps that fit into {} minutes,", config.minutes),
                     report::WithCommas(config.batch * config.accumulate), batches,
                     start.step > 0 ? fmt::format(", {} taken before", report::WithCommas(start.step)) : "");
}

// Returns when all processes have called it.
void Barrier(train::Communicator& processes) {
  double nothing = 0;
  processes.Sum({&nothing, 1});
}

}  // namespace

TrainingRun::TrainingRun(RunRequest request, const Note& note, train::Communicator& processes) : processes_(processes) {
  const fs::path& folder = request.folder;
  const auto choose = [&](train::Settings* settings) { ChoosePreset(request.data, settings); };
  switch (request.images ? DataKind::kImages : KindOf(request.data, request.settings)) {
    case DataKind::kPairs: {
      config_ = MakeConfig(request, note, choose);
      const fs::path last = folder / "last";
      const bool resumes = request.resume && fs::exists(last / "config.json");
      const auto& pairs =
          data_.emplace<train::PairData>(train::PairsForTraining(request.data, config_, resumes ? last : fs::path()));
      Notify(note, pairs.summary);
      break;
    }
    case DataKind::kSequences: {
      config_ = MakeConfig(request, note, choose);
      Notify(note, data_.emplace<train::SequenceData>(train::SequencesForTraining(request.data, config_)).summary);
      break;
    }
    case DataKind::kImages: {
      train::Dataset dataset = request.images ? *std::move(request.images) : train::OpenDataset(request.data);
      Notify(note, train::Summary(dataset));
      config_ = MakeConfig(request, note, [&](train::Settings* given) { ChoosePreset(dataset, note, given); });
      const auto seed = static_cast<uint64_t>(config_.seed);
      const auto& images =
          data_.emplace<train::TrainingData>(train::ForTraining(std::move(dataset), config_.val_fraction, seed));
      for (const std::string& text : images.notes) Notify(note, text);
      if (processes.first()) maps_ = MapImagesOf(config_, images, seed, note);
      break;
    }
  }
  if (processes.first()) {
    folder_ = std::make_unique<train::RunFolder>(folder, request.resume);
    Barrier(processes);
  } else {
    Barrier(processes);                                                     // rank 0 makes the folder
    folder_.reset(new train::RunFolder(train::RunFolder::Reader(folder)));  // which does not move
  }
  if (!processes.alone()) {
    const int threads = config_.threads > 0 ? static_cast<int>(config_.threads) : NumThreads();
    Notify(note, fmt::format("{} processes of {} thread{} each", processes.size(), threads, threads == 1 ? "" : "s"));
  }
}

train::Outcome TrainingRun::Train(train::Observer observer) {
  return std::visit(
      [&](const auto& data) {
        if (processes_.first()) {
          observer = WithPictures(std::move(observer), folder_->path(), std::exchange(maps_, {}));
          observer.begun = [&, note = observer.note, begun = std::move(observer.begun)](const auto& start) {
            Notify(note, StartLine(config_, start, BatchesOf(data)));
            if (begun) begun(start);
          };
        }
        return train::Train(config_, data, *folder_, observer, &processes_);
      },
      data_);
}

}  // namespace qkv::app
