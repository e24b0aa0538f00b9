#include "qkv/mil/training.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "qkv/core/file.h"
#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/core/rng.h"
#include "qkv/core/thread_count.h"
#include "qkv/core/work.h"
#include "qkv/mil/bag_store.h"
#include "qkv/mil/head.h"
#include "qkv/mil/learner.h"
#include "qkv/mil/trained_head.h"
#include "qkv/train/run/run_folder.h"

namespace qkv::mil {
namespace {

namespace fs = std::filesystem;

// Streams of the run's seed, apart from those of the folds' training.
constexpr uint64_t kFoldStream = 0xf01d, kBootstrapStream = 0xb007;

void CheckOptions(const MilOptions& o) {
  const auto range = [](const char* what, double value, double low, double high) {
    Require(value >= low && value <= high, "mil: {} is {}, expected {} to {}", what, value, low, high);
  };
  range("epochs", static_cast<double>(o.epochs), 1, 1e6);
  range("patience", static_cast<double>(o.patience), 0, 1e6);
  range("the learning rate", o.learning_rate, 1e-12, 10);
  range("weight decay", o.weight_decay, 0, 10);
  range("warm-up epochs", o.warmup_epochs, 0, 1e6);
  range("dropout", o.dropout, 0, 0.95);
  range("attention dropout", o.attention_dropout, 0, 0.95);
  range("label smoothing", o.smoothing, 0, 0.95);
  range("bags a step", static_cast<double>(o.accumulate), 1, 1e6);
  range("the greatest number of tiles", static_cast<double>(o.max_tiles), 0, 1e9);
  range("resamples", static_cast<double>(o.resamples), 0, 1e6);
  range("seed", static_cast<double>(o.seed), 0, 1e15);
}

// The loop's settings of a fold. Keys that do not apply to bags keep their defaults.
train::TrainConfig MakeLoopConfig(const MilOptions& o) {
  train::TrainConfig c;
  c.preset = "seq-task";
  c.seed = o.seed;
  c.lr = o.learning_rate, c.min_lr = o.learning_rate / 100;
  c.weight_decay = o.weight_decay;
  c.epochs = o.epochs, c.warmup_epochs = o.warmup_epochs;
  c.batch = 1, c.accumulate = o.accumulate;
  c.smoothing = o.smoothing, c.dropout = o.dropout, c.attention_dropout = o.attention_dropout;
  c.patience = o.patience;
  c.tensorboard = false;
  return c;
}

io::Json DescribeRun(const MilOptions& o, const Cohort& cohort, size_t folds, uint64_t data) {
  return {{kRunKey, kRunVersion},
          {"model", ToJson(o.model)},
          {"folds", folds},
          {"slides", cohort.slides.size()},
          {"data", fmt::format("{:016x}", data)},
          {"training",
           {{"epochs", o.epochs},
            {"patience", o.patience},
            {"learning_rate", o.learning_rate},
            {"weight_decay", o.weight_decay},
            {"warmup_epochs", o.warmup_epochs},
            {"dropout", o.dropout},
            {"attention_dropout", o.attention_dropout},
            {"smoothing", o.smoothing},
            {"accumulate", o.accumulate},
            {"max_tiles", o.max_tiles},
            {"class_weights", o.class_weights},
            {"seed", o.seed}}}};
}

// Names of settings that differ.
std::string DescribeChanges(const io::Json& before, const io::Json& now) {
  std::string changes;
  for (const io::Json& step : io::Json::diff(before, now)) {
    changes += (changes.empty() ? "" : ", ") + step.value("path", std::string());
  }
  return changes;
}

// Refuses a folder that holds something else, before anything is written.
void PrepareFolder(const fs::path& folder, bool resume, const io::Json& run) {
  const fs::path file = folder / "config.json";
  std::error_code error;
  if (FileExists(file)) {
    const io::Json before = io::ReadJson(file);
    Require(before.is_object() && before.contains(kRunKey), "{} is not of qkv slide train; name a new folder",
            file.string());
    Require(resume, "{} holds a run; go on with it (--resume), or name a new folder", folder.string());
    Require(before == run,
            "{}: a resumed run must be the one that was begun, with the same slides and settings; these differ: {}",
            folder.string(), DescribeChanges(before, run));
    return;
  }
  fs::create_directories(folder, error);
  Require(!error, "cannot create folder {}: {}", folder.string(), error.message());
  // A process that was killed while it wrote config.json leaves a temporary file of it.
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    Require(IsTemporaryNameFor(name, "config.json"),
            "folder {} is not empty, and holds no run: there is {}; name a new folder", folder.string(), name);
  }
  WriteFile(file, run.dump(2) + "\n");
}

struct Run {
  const Cohort& cohort;
  const MilOptions& options;
  const fs::path& folder;
  const MilObserver& observer;
  BagStore& bags;
  uint64_t data;
  std::vector<Fold> folds;
};

fs::path FoldFolder(const Run& run, int64_t fold) { return run.folder / fmt::format("fold-{}", fold); }

// Returns nothing if stopped.
std::optional<FoldResult> TrainFold(const Run& run, int64_t number) {
  const Fold& fold = run.folds[static_cast<size_t>(number)];
  MilLearner learner(run.options, run.cohort, fold, number, run.bags, run.data);
  train::RunFolder folder(FoldFolder(run, number), /*resume=*/true);
  const auto folds = std::ssize(run.folds);
  train::Observer observer;
  observer.note = run.observer.note;
  observer.stop = run.observer.stop;
  if (run.observer.step) {
    observer.step = [&](const train::StepReport& report) { run.observer.step(number, folds, report); };
  }
  if (run.observer.evaluation) {
    observer.evaluation = [&](const train::EvaluationReport& report) {
      run.observer.evaluation(number, folds, report);
    };
  }
  const train::Outcome outcome = train::RunLoop(MakeLoopConfig(run.options), learner, folder, observer);
  if (outcome.reason == train::Outcome::Reason::kStopped) return {};
  return FoldResult{.best_epoch = outcome.best_epoch,
                    .epochs = outcome.step / learner.steps_per_epoch(),
                    .validation_loss = outcome.best_loss,
                    .train = std::ssize(fold.train),
                    .validation = std::ssize(fold.validation),
                    .test = std::ssize(fold.test)};
}

// The test part as OpenHead's model answers it, which is what users will get.
std::vector<Prediction> Predict(const Run& run, int64_t number) {
  const std::unique_ptr<Head> head = OpenHead(FoldFolder(run, number));
  std::vector<Prediction> predictions;
  for (const int64_t slide : run.folds[static_cast<size_t>(number)].test) {
    CheckCancelled();
    const Bag bag = run.cohort.load(slide);
    const Cohort::Slide& of = run.cohort.slides[static_cast<size_t>(slide)];
    const Answer answer = head->Forward(bag.features, bag.coords, bag.side);
    predictions.push_back({of.name, of.patient, of.label, Probabilities(answer.logits), number});
  }
  return predictions;
}

std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string PredictionsCsv(const MilResult& result) {
  std::string text = "slide,patient,fold,label,predicted";
  for (const std::string& name : result.classes) text += "," + CsvField("p_" + name);
  text += "\n";
  for (const Prediction& p : result.predictions) {
    text += fmt::format("{},{},{},{},{}", CsvField(p.slide), CsvField(p.patient), p.fold,
                        CsvField(result.classes[static_cast<size_t>(p.label)]),
                        CsvField(result.classes[static_cast<size_t>(p.predicted())]));
    for (const double share : p.probabilities) text += fmt::format(",{:.6g}", share);
    text += "\n";
  }
  return text;
}

io::Json ToJson(const Interval& interval) {
  const auto number = [](double value) { return std::isnan(value) ? io::Json() : io::Json(value); };
  return {{"value", number(interval.value)}, {"low", number(interval.low)}, {"high", number(interval.high)}};
}

}  // namespace

io::Json ToJson(const MilResult& result) {
  io::Json folds = io::Json::array(), class_auc;
  for (const FoldResult& fold : result.folds) {
    folds.push_back({{"train", fold.train},
                     {"validation", fold.validation},
                     {"test", fold.test},
                     {"epochs", fold.epochs},
                     {"best_epoch", fold.best_epoch},
                     {"validation_loss", fold.validation_loss},
                     {"auc", std::isnan(fold.auc) ? io::Json() : io::Json(fold.auc)}});
  }
  const Metrics& m = result.metrics;
  for (size_t c = 0; c < result.classes.size(); ++c) {
    class_auc[result.classes[c]] = std::isnan(m.class_auc[c]) ? io::Json() : io::Json(m.class_auc[c]);
  }
  return {
      {"classes", result.classes},
      {"slides", m.slides},
      {"patients", m.patients},
      {"auc", ToJson(m.auc)},
      {"accuracy", ToJson(m.accuracy)},
      {"balanced_accuracy", ToJson(m.balanced_accuracy)},
      {"class_auc", class_auc},
      {"confusion", m.confusion},
      {"intervals", {{"level", 0.95}, {"method", "percentile bootstrap over patients"}, {"resamples", m.resamples}}},
      {"folds", folds}};
}

MilResult Train(const Cohort& cohort, const MilOptions& given, const fs::path& folder, bool resume,
                const MilObserver& observer) {
  CheckOptions(given);
  MilOptions options = given;
  const ThreadCount threads(options.threads > 0 ? static_cast<int>(options.threads) : NumThreads());
  BagStore bags(cohort, options.model.positions != TilePositions::kNone, MemoryLimit() / 4);
  std::vector<Fold> folds = MakeFolds(cohort, options.folds, MixSeed(static_cast<uint64_t>(options.seed), kFoldStream));
  if (folds.size() == 1 && folds[0].test == folds[0].validation && observer.note) {
    observer.note(
        "the table has no test part: the validation part, by which epochs are chosen, is tested, so the numbers are "
        "too "
        "good");
  }
  const uint64_t data = bags.ReadAll(observer.reading);
  options.model.inputs = bags.width();
  options.model.classes = cohort.classes;
  Validate(options.model);
  PrepareFolder(folder, resume, DescribeRun(options, cohort, folds.size(), data));
  const Run run{cohort, options, folder, observer, bags, data, std::move(folds)};
  MilResult result;
  result.classes = cohort.classes;
  for (int64_t fold = 0; fold < std::ssize(run.folds); ++fold) {
    std::optional<FoldResult> trained = TrainFold(run, fold);
    if (!trained) return {.stopped = true};
    std::vector<Prediction> predictions = Predict(run, fold);
    trained->auc = Measure(predictions, std::ssize(cohort.classes), 0, 0).auc.value;
    result.folds.push_back(*trained);
    std::move(predictions.begin(), predictions.end(), std::back_inserter(result.predictions));
  }
  result.metrics = Measure(result.predictions, std::ssize(cohort.classes), options.resamples,
                           MixSeed(static_cast<uint64_t>(options.seed), kBootstrapStream));
  WriteFile(folder / "predictions.csv", PredictionsCsv(result));
  WriteFile(folder / "results.json", ToJson(result).dump(2) + "\n");
  return result;
}

}  // namespace qkv::mil
