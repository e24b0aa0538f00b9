// Trains models over bags by cross-validation: a run's folder, one training loop per fold (train/run/loop.h),
// predictions of every slide by a model that has not seen its patient. design.md has the folder and the rules.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "qkv/mil/cohort.h"
#include "qkv/mil/config.h"
#include "qkv/mil/metrics.h"
#include "qkv/train/run/loop.h"

namespace qkv::mil {

struct MilOptions {
  MilConfig model;  // inputs and classes are those of the cohort
  int64_t folds = 5;
  int64_t epochs = 30, patience = 8;  // evaluations without a smaller validation loss that end a fold; 0: none do
  double learning_rate = 2e-4, weight_decay = 1e-4, warmup_epochs = 1;
  double dropout = 0.25, attention_dropout = 0, smoothing = 0;
  int64_t accumulate = 1;     // bags a step
  int64_t max_tiles = 0;      // of a bag in training, drawn anew each epoch; 0: all
  bool class_weights = true;  // a slide counts as the inverse of its class's share in the training part
  int64_t resamples = 2000;   // of the intervals
  int64_t seed = 0;
  int64_t threads = 0;  // 0: as they are set
};

/// Callbacks; each may be empty.
struct MilObserver {
  std::function<void(const std::string& note)> note;
  std::function<void(int64_t done, int64_t total)> reading;  // slides, before the first step
  std::function<void(int64_t fold, int64_t folds, const train::EvaluationReport&)> evaluation;
  std::function<void(int64_t fold, int64_t folds, const train::StepReport&)> step;
  std::function<bool()> stop;  // polled after each step; true saves and ends
};

struct FoldResult {
  int64_t best_epoch = 0, epochs = 0;
  double validation_loss = 0;
  double auc = 0;                               // of its test part; NaN if that lacks a class
  int64_t train = 0, validation = 0, test = 0;  // slides
};

struct MilResult {
  bool stopped = false;  // then the rest is not filled
  std::vector<std::string> classes;
  std::vector<FoldResult> folds;
  std::vector<Prediction> predictions;  // of every tested slide, fold by fold
  Metrics metrics;                      // of all of them together
};

/// Trains in `folder`, which is new or empty or, with `resume`, holds this run: then it goes on where that was stopped
/// or killed, to the same bits. Writes config.json, fold-N/, results.json, predictions.csv. Throws Error for cohorts
/// and options that do not fit, and if a resumed run has other options or data than it began with.
MilResult Train(const Cohort& cohort, const MilOptions& options, const std::filesystem::path& folder, bool resume,
                const MilObserver& observer = {});

/// The result's form in results.json.
io::Json ToJson(const MilResult& result);

/// Indices of `wanted` of `tiles` tiles, ascending, drawn without replacement; all if there are no more.
std::vector<int64_t> SampleTiles(int64_t tiles, int64_t wanted, uint64_t seed);

}  // namespace qkv::mil
