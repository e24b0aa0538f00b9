#include "qkv/app/training/run_pictures.h"

#include <memory>
#include <utility>

#include "qkv/app/training/curves.h"
#include "qkv/core/file.h"
#include "qkv/train/run/log.h"

namespace qkv::app {

std::optional<MapImages> MapImagesOf(const train::TrainConfig& config, const train::TrainingData& data, uint64_t seed,
                                     const Note& note) {
  if (config.maps.empty() || config.maps == "0") return {};
  return ChooseMapImages(config.maps, data, seed, note);
}

train::Observer WithPictures(train::Observer observer, const std::filesystem::path& folder,
                             std::optional<MapImages> maps) {
  if (maps) {
    const auto drawn = std::make_shared<TrainMaps>(folder / "maps", *std::move(maps));
    observer.evaluated = [drawn](const train::EvaluatedModel& model) { drawn->Draw(model); };
  }
  observer.evaluation = [folder, tell = std::move(observer.evaluation)](const train::EvaluationReport& report) {
    if (tell) tell(report);
    WriteFile(folder / "curves.svg", DrawCurves(train::ReadLog(folder / "log.jsonl"), folder.string()));
  };
  return observer;
}

}  // namespace qkv::app
