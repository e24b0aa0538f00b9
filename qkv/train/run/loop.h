// The training loop for any learner: steps, evaluations, checkpoints and logs, from the start or from a checkpoint. Not
// here: the model and its data (image_run.cc, sequence_run.cc).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "qkv/io/safetensors.h"
#include "qkv/train/communicator.h"
#include "qkv/train/network/initialise.h"
#include "qkv/train/optimizer/optimizer.h"
#include "qkv/train/optimizer/step.h"
#include "qkv/train/run/config.h"
#include "qkv/train/run/run_folder.h"
#include "qkv/train/run/run_state.h"

namespace qkv::train {

/// Facts about the start of this process's first step.
struct StartReport {
  int64_t parameters = 0;
  int64_t step = 0, steps = 0;  // taken before, of a resumed run, and total; total 0: minutes decide
};

struct StepReport {
  int64_t step = 0, steps = 0;    // taken, and total; total 0: not yet known
  int64_t epoch = 0;              // of this step, from 1
  double loss = 0, accuracy = 0;  // over the step's rows
  double learning_rate = 0, gradient_norm = 0;
  const char* unit = "";       // kind of row: "images", or "tokens" with a label
  double rows_per_second = 0;  // since this process began, without evaluations
  double seconds_left = 0;
};

struct EvaluationReport {
  int64_t step = 0, epoch = 0;
  double train_loss = 0, train_accuracy = 0;  // over the steps since the last evaluation, in training mode
  double loss = 0, top1 = 0;                  // on the validation data
  bool best = false;
  std::vector<std::pair<std::string, double>> more;  // Score::more
};

struct EvaluatedModel;  // image_run.h

/// Callbacks of a run; each may be empty.
struct Observer {
  std::optional<std::chrono::steady_clock::time_point> start;  // from which minutes count; none: when the loop begins
  std::function<void(const std::string& note)> note;
  std::function<void(const char* what, int64_t done, int64_t total)> reading;  // reading images before the first step
  std::function<void(const StartReport&)> begun;  // ready for the first step: from now on the folder holds a run
  std::function<void(const StepReport&)> step;
  // Images only. Called before the model is saved, so that a run resumed from the earlier state repeats the call.
  std::function<void(const EvaluatedModel&)> evaluated;
  std::function<void(const EvaluationReport&)> evaluation;  // after logging and saving
  // Polled after each step, and from any thread while images are read and models evaluated; true ends that work early.
  std::function<bool()> stop;
};

struct Outcome {
  enum class Reason { kFinished, kNoImprovement, kStopped } reason = Reason::kFinished;
  int64_t step = 0, steps = 0;          // taken, and total; total 0: stopped before the first step
  double best_top1 = 0, best_loss = 0;  // 0 before the first evaluation
  int64_t best_epoch = 0;
  const char* unit = "";  // see StepReport
  int64_t rows = 0;       // rows that this process trained on
  double rows_per_second = 0;
};

/// A model together with its training data. The loop calls the members in this order.
class Learner {
 public:
  virtual ~Learner() = default;

  /// Kind of row, see StepReport.
  virtual const char* unit() const = 0;
  /// Layout of the weights [P].
  virtual const ParameterLayout& layout() const = 0;
  /// Fingerprint of the data, see RunState::data.
  virtual uint64_t data() const = 0;
  /// Fills the initial weights [P]. Not called on resume.
  virtual void Initialise(View<float> weights) = 0;
  /// Prepares for this step: 0, or the step where the run resumes. The optimizer must outlive the learner's use of it.
  /// Throws Stopped if stopped before it is ready.
  virtual void Open(Optimizer<float>& optimizer, int64_t step) = 0;
  virtual int64_t steps_per_epoch() const = 0;
  /// Rows that Evaluate takes through the model. Cost beyond that, such as translating, does not count.
  virtual int64_t evaluated_rows() const = 0;
  /// Runs the next step.
  virtual StepResult Step(double learning_rate, View<float> weights) = 0;
  /// Evaluates on the validation data. Returns nothing if `stop` returns true before the end. All processes call `stop`
  /// equally often.
  virtual std::optional<Score> Evaluate(View<const float> weights, const std::function<bool()>& stop) = 0;

  /// The files of a model with these weights: config.json, and tensors that may point into the weights.
  virtual std::string config() const = 0;
  /// Further files beside them: names and contents.
  virtual std::vector<std::pair<std::string, std::string>> files() const { return {}; }
  virtual std::vector<io::StoredTensor> Tensors(View<const float> weights) const = 0;
};

/// Settings of a learner's Stepper, and its weight initialisation.
StepSettings MakeStepSettings(const TrainConfig& config);
Initialisation MakeInitialisation(const TrainConfig& config);

/// Runs training in `folder`; resumes from its checkpoint if there is one. With several `processes`, every process
/// calls this with a learner of its own; only rank 0 writes its folder, the others hold a Reader of it. If
/// observer.stop returns true, it saves after the current step and returns; an interrupted evaluation is repeated when
/// the run resumes. Writes config.yaml, log.jsonl and, if configured, event files. Writes nothing before the first step
/// can run, so a run that fails to start leaves nothing behind. With `minutes`, the first steps and the first
/// evaluation are timed; then the run is one of the steps that fit, in config.yaml too; one at least. Throws Error if
/// the data differ from those that the run began with, the saved state does not belong to this run, the loss is not
/// finite, or a file cannot be written; the last checkpoint then remains.
Outcome RunLoop(const TrainConfig& config, Learner& learner, RunFolder& folder, const Observer& observer,
                Communicator* processes = nullptr);

}  // namespace qkv::train
