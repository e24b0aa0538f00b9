// Cross-validation of bags with a planted lesion: it is found, whatever stops the run in between.
#include "qkv/mil/training.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "qkv/core/parallel.h"
#include "qkv/mil/head.h"
#include "tests/mil/cohort.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv::mil {
namespace {

namespace fs = std::filesystem;

MilOptions QuickOptions() {
  MilOptions options;
  options.model.block.width = 16, options.model.gate_width = 8;
  options.folds = 3, options.epochs = 12, options.accumulate = 4, options.learning_rate = 1e-2, options.patience = 0;
  options.dropout = 0.1, options.resamples = 200, options.max_tiles = 30;
  return options;
}

MilOptions QuickTransformer(nn::AttentionKind kind = nn::AttentionKind::kShared) {
  MilOptions options = QuickOptions();
  options.model.architecture = Architecture::kTransformer;
  options.model.block = {.width = 16, .attention = {.kind = kind, .heads = 2, .head_width = 8}, .mlp = {.width = 16}};
  options.model.depth = 1, options.model.positions = TilePositions::kRotary;
  return options;
}

std::string Contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void ExpectSameRun(const fs::path& a, const fs::path& b) {
  for (const char* file : {"results.json", "predictions.csv", "config.json", "fold-0/model.safetensors",
                           "fold-1/model.safetensors", "fold-2/model.safetensors", "fold-2/last/model.safetensors"}) {
    EXPECT_FALSE(Contents(a / file).empty()) << file;
    EXPECT_EQ(Contents(a / file), Contents(b / file)) << file;
  }
}

TEST(MilTraining, FindsThePlantedLesion) {
  const Cohort cohort = PlantedCohort(30);
  for (MilOptions options : {QuickOptions(), QuickTransformer()}) {
    SCOPED_TRACE(Name(options.model.architecture));
    options.folds = 4, options.accumulate = 2, options.epochs = 6;  // each epoch is flushed to disk
    const TemporaryFolder folder;
    const MilResult result = Train(cohort, options, folder / "run", false);
    EXPECT_GT(result.metrics.auc.value, options.model.depth == 0 ? 0.95 : 0.85);
    EXPECT_LE(result.metrics.auc.low, result.metrics.auc.value);
    EXPECT_EQ(result.predictions.size(), cohort.slides.size());
    // The run as users open it: its mean of folds puts its attention on the lesion.
    const std::unique_ptr<Head> head = OpenHead(folder / "run");
    EXPECT_EQ(head->classes(), cohort.classes);
    const Bag bag = cohort.load(2);  // of class 1
    const Answer answer = head->Forward(bag.features, bag.coords, bag.side);
    EXPECT_GT(answer.logits[1], answer.logits[0]);
    const auto most = std::max_element(answer.weights.data(), answer.weights.data() + answer.weights.size());
    if (options.model.depth == 0) {
      EXPECT_GT(bag.features.view().row(most - answer.weights.data())[0], 2);
    }
    EXPECT_EQ(OpenHead(folder / "run" / "fold-1")->width(), 8);
    EXPECT_TRUE(io::ReadJson(folder / "run" / "results.json").contains("auc"));
  }
}

TEST(MilTraining, StoppedRunsGoOnToTheSameBits) {
  const Cohort cohort = PlantedCohort(9);
  MilOptions options = QuickTransformer();
  options.epochs = 4;
  const TemporaryFolder folder;
  Train(cohort, options, folder / "whole", false);
  int64_t left = 0;
  MilObserver observer;
  observer.stop = [&] { return --left <= 0; };
  bool resume = false;
  int stops = 0;
  for (;; resume = true) {
    left = 7;  // steps and slides that are evaluated
    if (!Train(cohort, options, folder / "parts", resume, observer).stopped) break;
    ASSERT_LT(++stops, 100);
  }
  EXPECT_GT(stops, 3);
  ExpectSameRun(folder / "whole", folder / "parts");
}

TEST(MilTraining, KilledRunsGoOnToTheSameBits) {
  const Cohort cohort = PlantedCohort(9);
  MilOptions options = QuickOptions();
  options.epochs = 6, options.threads = 1;
  const TemporaryFolder folder;
  Train(cohort, options, folder / "whole", false);
  const fs::path run = folder / "killed";
  Rng rng(5);
  for (int kill = 0; kill < 10; ++kill) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        Train(cohort, options, run, fs::exists(run / "config.json"));
      } catch (const std::exception&) {
        ::_exit(1);
      }
      ::_exit(0);
    }
    ::usleep(static_cast<useconds_t>(1000 + rng.Next() % 40'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 1);
  }
  Train(cohort, options, run, fs::exists(run / "config.json"));
  ExpectSameRun(folder / "whole", run);
}

TEST(MilTraining, RefusesOtherDataOptionsAndFolders) {
  const Cohort cohort = PlantedCohort(9);
  MilOptions options = QuickOptions();
  options.epochs = 1;
  const TemporaryFolder folder;
  const auto message = [&](const Cohort& of, const MilOptions& with, bool resume) {
    return ErrorMessage([&] { Train(of, with, folder / "run", resume); });
  };
  EXPECT_EQ(message(cohort, options, false), "");
  EXPECT_NE(message(cohort, options, false).find("--resume"), std::string::npos);
  EXPECT_EQ(message(cohort, options, true), "");
  EXPECT_NE(message(PlantedCohort(9, 2), options, true).find("/data"), std::string::npos);
  options.learning_rate = 0.5;
  EXPECT_NE(message(cohort, options, true).find("/training/learning_rate"), std::string::npos);
  std::ofstream(folder / "note") << "mine";
  EXPECT_NE(ErrorMessage([&] { Train(cohort, options, folder.path(), false); }).find("there is"), std::string::npos);
}

// Slides that trained would be tested otherwise.
TEST(MilTraining, AResumedRunHasTheSameSplit) {
  Cohort cohort = PlantedCohort(9);
  for (size_t i = 0; i < cohort.slides.size(); ++i) {
    cohort.slides[i].split = i < 8 ? Split::kTrain : i < 12 ? Split::kValidation : Split::kTest;
  }
  MilOptions options = QuickOptions();
  options.epochs = 1;
  const TemporaryFolder folder;
  std::string notes;
  const MilObserver observer{.note = [&](const std::string& note) { notes += note; }};
  Train(cohort, options, folder / "run", false, observer);
  EXPECT_EQ(notes.find("no test part"), std::string::npos);
  for (Cohort::Slide& slide : cohort.slides) {
    if (slide.split == Split::kTest) slide.split = Split::kValidation;
  }
  EXPECT_NE(ErrorMessage([&] { Train(cohort, options, folder / "run", true); }).find("/data"), std::string::npos);
  Train(cohort, options, folder / "other", false, observer);
  EXPECT_NE(notes.find("no test part"), std::string::npos);
}

TEST(MilTraining, BadBagsAreNamed) {
  const TemporaryFolder folder;
  const Cohort good = PlantedCohort(9);
  const auto message = [&](const std::function<void(Bag*)>& change) {
    Cohort cohort = good;
    cohort.load = [&](int64_t slide) {
      Bag bag = good.load(slide);
      if (slide == 4) change(&bag);
      return bag;
    };
    return ErrorMessage([&] { Train(cohort, QuickTransformer(), folder / "run", false); });
  };
  EXPECT_NE(message([](Bag* bag) {
              bag->features = Tensor<float>({0, 8});
            }).find("slide \"slide4\""),
            std::string::npos);
  EXPECT_NE(message([](Bag* bag) { bag->features = Tensor<float>({2, 7}); }).find("of one encoder"), std::string::npos);
  EXPECT_NE(message([](Bag* bag) { bag->features[3] = INFINITY; }).find("no number"), std::string::npos);
  EXPECT_NE(message([](Bag* bag) { bag->coords.clear(); }).find("positions none"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder / "run"));
}

TEST(MilTraining, TilesAreSampledWithoutReplacement) {
  const std::vector<int64_t> tiles = SampleTiles(100, 30, 5);
  EXPECT_EQ(std::set<int64_t>(tiles.begin(), tiles.end()).size(), 30u);
  EXPECT_TRUE(std::is_sorted(tiles.begin(), tiles.end()));
  EXPECT_EQ(SampleTiles(100, 30, 5), tiles);
  EXPECT_NE(SampleTiles(100, 30, 6), tiles);
  EXPECT_EQ(SampleTiles(4, 9, 1).size(), 4u);
}

}  // namespace
}  // namespace qkv::mil
