// The loop of a training run, whatever learns: steps, evaluations, what is saved and logged, from the beginning or from
// where it was stopped. Not here: what learns, and from what (run.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "qkv/io/safetensors.h"
#include "qkv/train/network/initialise.h"
#include "qkv/train/optimizer/communicator.h"
#include "qkv/train/optimizer/optimizer.h"
#include "qkv/train/optimizer/step.h"
#include "qkv/train/run/config.h"
#include "qkv/train/run/run_folder.h"
#include "qkv/train/run/run_state.h"

namespace qkv::train {

struct StepReport {
  int64_t step = 0, steps = 0;    // taken, of how many
  int64_t epoch = 0;              // that it belongs to, from 1
  double loss = 0, accuracy = 0;  // of its rows
  double learning_rate = 0, gradient_norm = 0;
  const char* unit = "";       // what a row is: "images", or "tokens" that something is asked of
  double rows_per_second = 0;  // since the process began to take steps, evaluations aside
  double seconds_left = 0;
};

struct EvaluationReport {
  int64_t step = 0, epoch = 0;
  double train_loss = 0, train_accuracy = 0;  // of the steps since the last evaluation, as they were taken
  double loss = 0, top1 = 0;                  // of the validation data
  bool best = false;
};

struct EvaluatedModel;  // run.h

/// Who wants to know, and who may stop it. Each may be empty.
struct Observer {
  std::function<void(const std::string& note)> note;
  std::function<void(const char* what, int64_t done, int64_t total)> reading;  // images, before the first step
  std::function<void()> begun;  // all is there for the first step: from now on the folder holds a run
  std::function<void(const StepReport&)> step;
  // Images: before it is saved, so that what is made of it is made again by a run that goes on from the moment before.
  std::function<void(const EvaluatedModel&)> evaluated;
  std::function<void(const EvaluationReport&)> evaluation;  // when it is logged and saved
  // Asked after each step, and from any thread while images are read and models are evaluated, which then end early.
  std::function<bool()> stop;
};

struct Outcome {
  enum class Why { kFinished, kNoBetter, kStopped } why = Why::kFinished;
  int64_t step = 0, steps = 0;          // taken, of how many; steps 0: stopped before any could be taken
  double best_top1 = 0, best_loss = 0;  // 0 where nothing was evaluated yet
  int64_t best_epoch = 0;
  const char* unit = "";  // see StepReport
  int64_t rows = 0;       // trained on by this process
  double rows_per_second = 0;
};

/// What learns: a model, and the data that it learns from. The loop asks for things in this order.
class Learner {
 public:
  virtual ~Learner() = default;

  /// What its rows are, see StepReport.
  virtual const char* unit() const = 0;
  /// Where each tensor lies in buffers of weights [P].
  virtual const ParameterLayout& layout() const = 0;
  /// Tells the data apart from others, see RunState::data.
  virtual uint64_t data() const = 0;
  /// The weights [P] that a run begins with. Not asked for where one is resumed.
  virtual void Initialise(View<float> weights) = 0;
  /// Makes ready for this step, 0 or where a run is resumed. The optimizer outlives the learner's use of it. Throws
  /// Stopped where it was to stop before it was ready.
  virtual void Open(Optimizer<float>& optimizer, int64_t step) = 0;
  virtual int64_t steps_per_epoch() const = 0;
  /// Takes the next step.
  virtual StepResult Step(double learning_rate, View<float> weights) = 0;
  /// On the validation data; nothing where `stop` says yes before it is done. Of several processes all ask `stop`
  /// as often as each other.
  virtual std::optional<Score> Evaluate(View<const float> weights, const std::function<bool()>& stop) = 0;

  /// The files of a model with these weights: config.json, and tensors that may point into them.
  virtual std::string config() const = 0;
  virtual std::vector<io::StoredTensor> Tensors(View<const float> weights) const = 0;
};

/// What a learner's Stepper is told, and how its weights begin.
StepSettings StepSettingsOf(const TrainConfig& config);
Initialisation InitialisationOf(const TrainConfig& config);

/// Of several `processes` all call this with learners that take steps together; only the first one's folder is written
/// to, the others have a Reader of it.
/// Runs in `folder`, from its checkpoint where it has one. Where observer.stop says yes, it saves after the step that
/// it is at and returns; an evaluation that was not done is made when the run goes on. Writes config.yaml, log.jsonl
/// and, if asked for, event files there, nothing before the first step can be taken: what cannot begin leaves nothing
/// behind. Throws Error for data that the run was not begun with, a saved state that cannot be this run's, a loss that
/// is no number, and a file that cannot be written; what was saved before is still there then.
Outcome RunLoop(const TrainConfig& config, Learner& learner, RunFolder& folder, const Observer& observer,
                Communicator* processes = nullptr);

}  // namespace qkv::train
