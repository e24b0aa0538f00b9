#include "qkv/train/run/loop.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <optional>

#include "qkv/core/file.h"
#include "qkv/core/rng.h"
#include "qkv/train/optimizer/schedule.h"
#include "qkv/train/run/log.h"
#include "qkv/train/run/time_limit.h"
#include "qkv/train/stopped.h"

namespace qkv::train {
namespace {

using Clock = std::chrono::steady_clock;

double Rows(const LossSum& sum) { return static_cast<double>(std::max<int64_t>(1, sum.rows)); }

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

OptimizerSettings MakeOptimizerSettings(const TrainConfig& config) {
  OptimizerSettings settings;
  settings.kind = config.opt == "sgd" ? OptimizerSettings::Kind::kSgd : OptimizerSettings::Kind::kAdamW;
  settings.weight_decay = config.weight_decay;
  settings.beta1 = config.beta1;
  settings.beta2 = config.beta2;
  settings.momentum = config.momentum;
  settings.clip_norm = config.clip_grad;
  settings.average_decay = config.ema;
  return settings;
}

Schedule MakeSchedule(const TrainConfig& config, int64_t steps_per_epoch) {
  Schedule schedule;
  schedule.kind = config.sched == "cosine"         ? Schedule::Kind::kCosine
                  : config.sched == "one-cycle"    ? Schedule::Kind::kOneCycle
                  : config.sched == "inverse-sqrt" ? Schedule::Kind::kInverseSqrt
                                                   : Schedule::Kind::kConstant;
  schedule.peak = config.lr;
  schedule.floor = config.min_lr;
  schedule.steps = config.steps > 0 ? config.steps : config.epochs * steps_per_epoch;
  // A short run must reach its peak rate and decay again, whatever the preset's warm-up is.
  const auto warmup = static_cast<int64_t>(std::llround(config.warmup_epochs * static_cast<double>(steps_per_epoch)));
  schedule.warmup = std::min(warmup, schedule.steps / 2);
  return schedule;
}

// Checks that all processes have the same weights; they do if their arithmetic is the same.
void RequireSame(View<const float> weights, Communicator& processes) {
  if (processes.alone()) return;
  uint64_t digest = 0;
  for (int64_t i = 0; i < weights.size(); ++i) {
    digest = MixSeed(digest, std::bit_cast<uint32_t>(weights.data()[i]));
  }
  const std::vector<std::string> all = processes.Gather(std::to_string(digest));
  Require(
      std::ranges::count(all, all[0]) == std::ssize(all),
      "train: the processes' weights differ: their machines compute differently; QKV_ISA makes them all use the same "
      "instruction set");
}

// Steps that are timed before a run's minutes are as many steps. The first, which touches memory for the first time, is
// slower and does not count.
constexpr int64_t kTimedSteps = 3;

class Loop {
 public:
  Loop(const TrainConfig& config, Learner& learner, RunFolder& folder, const Observer& observer,
       Communicator* processes)
      : config_(config),
        learner_(learner),
        folder_(folder),
        observer_(observer),
        processes_(processes ? *processes : alone_) {}

  Outcome Go() {
    try {
      Begin();
    } catch (const Stopped&) {
      schedule_.steps = 0;
      return MakeOutcome(Outcome::Reason::kStopped);
    }
    OpenFolder();
    bool stopped = run_state_.evaluation_due && !EvaluateAndSave();
    while (!stopped && run_state_.step < schedule_.steps) {
      if (HasStoppedImproving()) return MakeOutcome(Outcome::Reason::kNoImprovement);
      TakeStep();
      stopped = IsStopped();
      if (run_state_.evaluation_due) {
        if (!stopped && EvaluateAndSave()) {
          stopped = IsStopped();
          continue;
        }
        stopped = true;
      }
      if (stopped || (config_.save_steps > 0 && run_state_.step % config_.save_steps == 0)) {
        Save(run_state_.evaluations == 0);
      }
    }
    const bool finished = run_state_.step == schedule_.steps && !run_state_.evaluation_due;
    return MakeOutcome(finished ? Outcome::Reason::kFinished : Outcome::Reason::kStopped);
  }

 private:
  Outcome MakeOutcome(Outcome::Reason reason) const {
    Outcome outcome;
    outcome.reason = reason;
    outcome.step = run_state_.step;
    outcome.steps = schedule_.steps;
    outcome.best_top1 = run_state_.best_top1;
    outcome.best_epoch = run_state_.best_epoch;
    outcome.best_loss = run_state_.best_loss;
    outcome.unit = learner_.unit();
    outcome.rows = rows_;
    outcome.rows_per_second = seconds_ > 0 ? static_cast<double>(rows_) / seconds_ : 0;
    return outcome;
  }

  // Initialises or restores weights and all state.
  void Begin() {
    weights_ = Tensor<float>({learner_.layout().size()});
    optimizer_.emplace(learner_.layout(), MakeOptimizerSettings(config_));
    if (folder_.HasCheckpoint()) {
      Restore();
    } else {
      run_state_.data = learner_.data();
      learner_.Initialise(weights_);
    }
    learner_.Open(*optimizer_, run_state_.step);
    schedule_ = MakeSchedule(config_, learner_.steps_per_epoch());
    // Until the first steps are timed, the schedule is one that they do not end.
    if (times_) schedule_.steps = std::max(schedule_.steps, run_state_.step + kTimedSteps + 1);
    Validate(schedule_);
    Require(run_state_.step <= schedule_.steps, "train: the run has taken {} steps; expected at least as many, got {}",
            run_state_.step, schedule_.steps);
    RequireCountable();
    if (!times_) NoteShortWarmup();
  }

  void NoteShortWarmup() const {
    const double warmup = config_.warmup_epochs * static_cast<double>(learner_.steps_per_epoch());
    const bool limited =
        schedule_.kind != Schedule::Kind::kOneCycle && static_cast<double>(schedule_.warmup) + 1 < warmup;
    const bool resumed = run_state_.step > steps_;
    if (limited && !resumed && observer_.note) {
      observer_.note(
          fmt::format("warmup-epochs {} is more than half of this run: the learning rate rises for {} of its {} steps",
                      config_.warmup_epochs, schedule_.warmup, schedule_.steps));
    }
  }

  void Restore() {
    const Saved saved = folder_.Load();
    const std::string folder = folder_.path().string();
    run_state_ = RunState::FromJson(saved.progress, FormatShown("{}: the training state", folder));
    Require(run_state_.data == learner_.data(), "train: the {} are not those that {} was begun with", learner_.unit(),
            folder);
    const io::StoredTensor* weights = saved.training.Find("weights");
    Require(weights != nullptr && weights->shape == weights_.shape(), "train: {} holds no weights of this model",
            folder);
    io::ConvertTo(*weights, weights_.data());
    optimizer_->Restore(saved.training);
    Require(optimizer_->steps() == run_state_.step, "train: {}: the optimiser took {} steps, the run {}", folder,
            optimizer_->steps(), run_state_.step);
    const bool finite = std::ranges::all_of(weights_.span(), [](float weight) { return std::isfinite(weight); });
    Require(finite, "train: {}: the weights are not all numbers", folder);
  }

  // Sequences and images are numbered from the start of the run; the numbers must not overflow.
  void RequireCountable() const {
    constexpr double kMost = 0x1p62;
    const double rows = static_cast<double>(schedule_.steps) * static_cast<double>(config_.accumulate) *
                        static_cast<double>(config_.batch);
    Require(rows <= kMost, "train: {} steps of {} batches of {} are more than can be counted", schedule_.steps,
            config_.accumulate, config_.batch);
  }

  void OpenFolder() {
    if (!processes_.first()) return;
    WriteSettings();
    log_.emplace(folder_.path() / "log.jsonl", run_state_.step);
    if (config_.tensorboard) events_.emplace(folder_.path(), run_state_.step);
    if (!observer_.begun) return;
    StartReport report{.step = run_state_.step, .steps = times_ ? 0 : schedule_.steps};
    for (const Slot& slot : learner_.layout().slots()) report.parameters += slot.shape.size();
    observer_.begun(report);
  }

  void WriteSettings() const { WriteFile(folder_.path() / RunFolder::kConfig, ToYaml(config_)); }

  void Log(const char* event, const std::vector<std::pair<std::string, double>>& values) {
    if (!log_) return;
    io::Json line = {{"event", event}, {"step", run_state_.step}, {"epoch", Epoch()}};
    std::vector<std::pair<std::string, double>> scalars;
    for (const auto& [name, value] : values) {
      line[name] = value;
      scalars.emplace_back(fmt::format("{}/{}", event, name), value);
    }
    log_->Append(line);
    if (events_) events_->Scalars(run_state_.step, scalars);
  }

  // The epoch of the last step, from 1.
  int64_t Epoch() const {
    const int64_t steps = learner_.steps_per_epoch();
    return (run_state_.step + steps - 1) / steps;
  }

  bool IsEvaluated(int64_t step) const { return step == schedule_.steps || step % StepsBetweenEvaluations() == 0; }

  // If one process stops, all stop after the same step.
  bool IsStopped() {
    double stops = observer_.stop && observer_.stop() ? 1 : 0;
    processes_.Sum({&stops, 1});
    return stops > 0;
  }

  bool HasStoppedImproving() const { return config_.patience > 0 && run_state_.without_better >= config_.patience; }

  int64_t StepsBetweenEvaluations() const {
    return config_.eval_steps > 0 ? config_.eval_steps : config_.eval_epochs * learner_.steps_per_epoch();
  }

  // So that the log of a short run is a curve too.
  int64_t LogSteps() const {
    return config_.log_steps > 0 ? config_.log_steps : std::clamp<int64_t>(schedule_.steps / 50, 1, 20);
  }

  // True once the steps that were taken tell how long one takes, or its minutes are over.
  bool IsTimed() {
    double over = steps_ >= kTimedSteps || SecondsLeft() <= 0 ? 1 : 0;
    processes_.Sum({&over, 1});
    return over > 0;
  }
  double SecondsLeft() const { return 60 * minutes_ - SecondsSince(begin_); }
  // Makes the run one of the steps that fit into its minutes.
  void ChooseSteps();
  // An evaluation goes forward, which is about a third of a step.
  double EstimateEvaluation() const {
    return static_cast<double>(learner_.evaluated_rows()) * seconds_ /
           (3.0 * static_cast<double>(std::max<int64_t>(1, rows_)));
  }
  void TakeStep();
  // Returns false, with nothing saved, if stopped before the evaluation was complete.
  bool EvaluateAndSave();
  void Save(bool best);

  // The weights that are evaluated and written: the average, if there is one.
  View<const float> EvaluatedWeights() const {
    return run_state_.step > 0 && !optimizer_->average().empty() ? optimizer_->average() : View<const float>(weights_);
  }

  TrainConfig config_;
  Learner& learner_;
  RunFolder& folder_;
  const Observer& observer_;
  Communicator alone_;
  Communicator& processes_;

  Tensor<float> weights_;  // [P]
  std::optional<Optimizer<float>> optimizer_;
  Schedule schedule_;
  RunState run_state_;

  std::optional<train::Log> log_;
  std::optional<EventFile> events_;
  int64_t rows_ = 0, steps_ = 0;            // of this process
  double seconds_ = 0, first_seconds_ = 0;  // time of its steps, and of the first of them

  const Clock::time_point begin_ = observer_.start.value_or(Clock::now());
  const double minutes_ = config_.minutes;
  bool times_ = minutes_ > 0;       // they decide the number of steps, which is not final
  double evaluation_seconds_ = -1;  // of the first evaluation, saving included; before it −1
};

void Loop::ChooseSteps() {
  const double evaluation = evaluation_seconds_ < 0 ? EstimateEvaluation() : evaluation_seconds_;
  const double step = steps_ > 1 ? (seconds_ - first_seconds_) / static_cast<double>(steps_ - 1) : seconds_;
  // All processes take the same steps: by their mean times.
  double times[] = {SecondsLeft(), step, evaluation};
  processes_.Sum(times);
  for (double& time : times) time /= processes_.size();
  const Pace pace{.step = times[1], .evaluation = times[2], .between = StepsBetweenEvaluations()};
  config_.steps = run_state_.step + CountStepsWithin(times[0], pace);
  config_.minutes = 0;
  schedule_ = MakeSchedule(config_, learner_.steps_per_epoch());
  times_ = evaluation_seconds_ < 0;
  if (processes_.first()) WriteSettings();
}

void Loop::TakeStep() {
  const Clock::time_point begin = Clock::now();
  const double rate = LearningRate(schedule_, run_state_.step);
  const auto [sum, norm] = learner_.Step(rate, weights_);
  ++run_state_.step;
  run_state_.logged += sum;
  run_state_.evaluated += sum;
  rows_ += sum.rows;
  seconds_ += SecondsSince(begin);
  if (++steps_ == 1) first_seconds_ = seconds_;
  if (times_ && IsTimed()) {
    ChooseSteps();
    if (run_state_.step < schedule_.steps) NoteShortWarmup();
  }

  StepReport report;
  report.step = run_state_.step;
  report.steps = config_.minutes > 0 ? 0 : schedule_.steps;
  report.epoch = Epoch();
  report.loss = sum.loss / Rows(sum);
  report.accuracy = static_cast<double>(sum.correct) / Rows(sum);
  report.learning_rate = rate;
  report.gradient_norm = norm;
  report.unit = learner_.unit();
  report.rows_per_second = static_cast<double>(rows_) / seconds_;
  report.seconds_left = seconds_ / static_cast<double>(steps_) * static_cast<double>(schedule_.steps - run_state_.step);
  if (run_state_.step % LogSteps() == 0) {
    const LossSum& logged = run_state_.logged;
    Log("train", {{"loss", logged.loss / Rows(logged)},
                  {"accuracy", static_cast<double>(logged.correct) / Rows(logged)},
                  {"learning_rate", rate},
                  {"gradient_norm", norm},
                  {fmt::format("{}_per_second", report.unit), report.rows_per_second}});
    run_state_.logged = {};
  }
  run_state_.evaluation_due = IsEvaluated(run_state_.step);
  if (observer_.step) observer_.step(report);
}

bool Loop::EvaluateAndSave() {
  const Clock::time_point begin = Clock::now();
  const std::optional<Score> result = learner_.Evaluate(EvaluatedWeights(), [&] { return IsStopped(); });
  if (!result) return false;
  const Score& score = *result;
  run_state_.evaluation_due = false;
  EvaluationReport report;
  report.step = run_state_.step;
  report.epoch = Epoch();
  const LossSum& training = run_state_.evaluated;
  report.train_loss = training.loss / Rows(training);
  report.train_accuracy = static_cast<double>(training.correct) / Rows(training);
  report.loss = score.loss;
  report.top1 = score.top1;
  report.best = run_state_.Rate(report.epoch, score);
  report.more = score.more;
  run_state_.evaluated = {};
  std::vector<std::pair<std::string, double>> values = {{"train_loss", report.train_loss},
                                                        {"train_accuracy", report.train_accuracy},
                                                        {"loss", report.loss},
                                                        {"top1", report.top1}};
  values.insert(values.end(), score.more.begin(), score.more.end());
  Log("evaluation", values);
  Save(report.best);
  if (observer_.evaluation) observer_.evaluation(report);
  if (evaluation_seconds_ < 0) evaluation_seconds_ = SecondsSince(begin);
  if (times_ && config_.minutes == 0 && run_state_.step < schedule_.steps) {
    ChooseSteps();
    if (observer_.note) {
      observer_.note(fmt::format("with evaluations, {} steps fit into {} minutes", schedule_.steps, minutes_));
    }
  }
  return true;
}

void Loop::Save(bool best) {
  RequireSame(weights_, processes_);
  if (!processes_.first()) return;
  Snapshot snapshot;
  snapshot.config = learner_.config();
  snapshot.files = learner_.files();
  snapshot.model = learner_.Tensors(EvaluatedWeights());
  snapshot.best = best;
  snapshot.training = optimizer_->Store();
  snapshot.training.push_back(io::Stored<float>("weights", View<const float>(weights_)));
  snapshot.progress = run_state_.ToJson();
  folder_.Commit(snapshot);
}

}  // namespace

StepSettings MakeStepSettings(const TrainConfig& config) {
  StepSettings settings;
  settings.smoothing = config.smoothing;
  settings.dropout = config.dropout;
  settings.attention_dropout = config.attention_dropout;
  settings.drop_path = config.drop_path;
  settings.checkpointing = config.checkpointing;
  settings.bf16 = config.precision == "bf16";
  settings.seed = static_cast<uint64_t>(config.seed);
  return settings;
}

Initialisation MakeInitialisation(const TrainConfig& config) {
  Initialisation how;
  how.scheme = config.init == "mimetic" ? Initialisation::Scheme::kMimetic : Initialisation::Scheme::kTimm;
  how.seed = static_cast<uint64_t>(config.seed);
  if (config.layer_scale > 0) how.layer_scale = config.layer_scale;
  return how;
}

Outcome RunLoop(const TrainConfig& config, Learner& learner, RunFolder& folder, const Observer& observer,
                Communicator* processes) {
  return Loop(config, learner, folder, observer, processes).Go();
}

}  // namespace qkv::train
