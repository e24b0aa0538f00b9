// Trains the runs of a comparison, one after the other.
#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "qkv/app/training/run_pictures.h"
#include "qkv/core/file.h"
#include "qkv/core/work.h"
#include "qkv/lab/comparison.h"
#include "qkv/train/run/image_run.h"
#include "qkv/train/run/initial_model.h"

namespace qkv::lab {
namespace {

// False if it was stopped. Throws Error as train::Train.
bool TrainOne(const PlannedRun& run, train::Observer observer, train::RunFolder& folder) {
  const std::filesystem::path file = run.folder / train::RunFolder::kConfig;
  if (std::filesystem::exists(file)) {
    train::RequireSameRun(train::Resolve(train::ReadRunSettings(file)), run.config);
  }
  const std::optional<train::TrainingData>& images = run.data->images;
  std::optional<app::MapImages> maps;
  if (images) maps = app::MapImagesOf(run.config, *images, /*seed=*/0, observer.note);  // the same for all runs
  observer = app::WithPictures(std::move(observer), run.folder, std::move(maps));
  const train::Outcome outcome =
      images ? train::Train(run.config, *images, folder, observer)
      : run.data->pairs
          ? train::Train(run.config, *run.data->pairs, folder, observer)
          : train::Train(run.config, train::SequencesForTraining(run.data->given, run.config), folder, observer);
  if (outcome.reason == train::Outcome::Reason::kStopped) return false;
  WriteFile(run.folder / kResult, ReadRun(run.folder, *run.data, run.arm->name, run.seed).ToJson());
  return true;
}

}  // namespace

void TrainRuns(const std::vector<PlannedRun>& runs, const RunsObserver& observer) {
  std::set<std::string> said;
  for (size_t i = 0; i < runs.size() && !(observer.stop && observer.stop()); ++i) {
    const PlannedRun& run = runs[i];
    if (HasEnded(run)) continue;
    train::Observer own = observer.run ? observer.run(i) : train::Observer();
    own.stop = observer.stop;
    if (own.note) {
      own.note = [&said, note = std::move(own.note)](const std::string& text) {
        if (said.insert(text).second) note(text);
      };
    }
    try {
      std::filesystem::create_directories(run.folder.parent_path());
      train::RunFolder folder(run.folder, /*resume=*/true);
      if (HasEnded(run)) continue;  // another process has just finished it
      if (!TrainOne(run, std::move(own), folder)) break;
    } catch (const train::RunFolderBusy&) {
      continue;
    } catch (const Cancelled&) {
      throw;
    } catch (const std::exception& error) {
      std::string why = error.what();
      std::ranges::replace(why, '\n', ' ');
      if (observer.failed) observer.failed(i, why);
      continue;
    }
    if (observer.ended) observer.ended(i, EndedRuns({run}).at(0));
  }
}

}  // namespace qkv::lab
