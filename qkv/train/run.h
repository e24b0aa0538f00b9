// A training run from beginning to end, or from where it was stopped: steps, evaluations, what is saved and logged.
// It goes on to the same bits as if it had never been stopped: whatever is random depends on the seed and the step
// alone, and everything else is in the run's folder (save.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "qkv/train/config.h"
#include "qkv/train/dataset.h"
#include "qkv/train/save.h"

namespace qkv::train {

struct StepReport {
  int64_t step = 0, steps = 0;    // taken, of how many
  int64_t epoch = 0;              // that it belongs to, from 1
  double loss = 0, accuracy = 0;  // of its images
  double learning_rate = 0, gradient_norm = 0;
  double images_per_second = 0;  // since the process began to take steps, evaluations aside
  double seconds_left = 0;
};

struct EvaluationReport {
  int64_t step = 0, epoch = 0;
  double train_loss = 0, train_accuracy = 0;  // of the steps since the last evaluation, as they were taken
  double loss = 0, top1 = 0, top5 = 0;        // of the validation images
  bool best = false;
};

/// Who wants to know, and who may stop it. Each may be empty.
struct Observer {
  std::function<void(const std::string& note)> note;
  std::function<void(const char* what, int64_t done, int64_t total)> reading;  // images, before the first step
  std::function<void(const StepReport&)> step;
  std::function<void(const EvaluationReport&)> evaluation;  // when it is logged and saved
  std::function<bool()> stop;                               // asked after each step
};

struct Outcome {
  enum class Why { kFinished, kNoBetter, kStopped } why = Why::kFinished;
  int64_t step = 0, steps = 0;
  double best_top1 = 0;  // 0 where nothing was evaluated yet
  int64_t best_epoch = 0;
  int64_t images = 0;  // seen by this process
  double images_per_second = 0;
};

/// Trains in `folder`, from its checkpoint where it has one. Writes log.jsonl and, if asked for, event files there.
/// Throws Error for data or a model that do not fit, a loss that is no number, and a file that cannot be written; what
/// was saved before is still there then.
Outcome Train(const TrainConfig& config, const TrainingData& data, RunFolder& folder, const Observer& observer);

}  // namespace qkv::train
