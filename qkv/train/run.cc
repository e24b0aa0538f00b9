#include "qkv/train/run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>

#include "qkv/core/parallel.h"
#include "qkv/model/cache.h"
#include "qkv/model/convert_tensors.h"
#include "qkv/model/folder.h"
#include "qkv/model/vit.h"
#include "qkv/train/evaluation.h"
#include "qkv/train/image_store.h"
#include "qkv/train/initialise.h"
#include "qkv/train/loader.h"
#include "qkv/train/log.h"
#include "qkv/train/optimizer.h"
#include "qkv/train/schedule.h"
#include "qkv/train/standing.h"
#include "qkv/train/start.h"
#include "qkv/train/step.h"

namespace qkv::train {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Decoded images that are kept in memory unless something else is asked for.
constexpr double kMemoryBytes = 2e9;
// Images that the evaluation computes together.
constexpr int64_t kEvaluationBatch = 64;
// Random resized crops want more than they show; twice the size loses nothing that a model could see.
constexpr int64_t kWholeSides = 2;

double Rows(const LossSum& sum) { return static_cast<double>(std::max<int64_t>(1, sum.rows)); }

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Augmentation AugmentationOf(const TrainConfig& config, const image::Preprocess& preprocess) {
  Augmentation a;
  a.crop = config.crop == "resized"  ? Augmentation::Crop::kResized
           : config.crop == "padded" ? Augmentation::Crop::kPadded
                                     : Augmentation::Crop::kNone;
  a.least_area = config.scale;
  a.filter = preprocess.filter;
  a.padding = config.pad;
  a.flip = config.flip;
  a.operations = config.randaugment;
  a.magnitude = config.magnitude;
  a.jitter = config.jitter;
  a.erase = config.erase;
  a.mixup = config.mixup;
  a.cutmix = config.cutmix;
  return a;
}

OptimizerSettings SettingsOf(const TrainConfig& config) {
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

StepSettings StepSettingsOf(const TrainConfig& config) {
  StepSettings settings;
  settings.smoothing = config.smoothing;
  settings.dropout = config.dropout;
  settings.attention_dropout = config.attention_dropout;
  settings.drop_path = config.drop_path;
  settings.checkpoint = config.checkpointing;
  settings.bf16 = config.precision == "bf16";
  settings.seed = static_cast<uint64_t>(config.seed);
  return settings;
}

Schedule ScheduleOf(const TrainConfig& config, int64_t steps_per_epoch) {
  Schedule schedule;
  schedule.kind = config.sched == "cosine"      ? Schedule::Kind::kCosine
                  : config.sched == "one-cycle" ? Schedule::Kind::kOneCycle
                                                : Schedule::Kind::kConstant;
  schedule.peak = config.lr;
  schedule.floor = config.min_lr;
  schedule.steps = config.steps > 0 ? config.steps : config.epochs * steps_per_epoch;
  const auto warmup = static_cast<int64_t>(std::llround(config.warmup_epochs * static_cast<double>(steps_per_epoch)));
  schedule.warmup = std::min(warmup, schedule.steps - 1);
  return schedule;
}

// What is kept of a split's images, and where.
StoreOptions StoreOptionsOf(const TrainConfig& config, const Split& split, const image::Preprocess& preprocess,
                            bool whole) {
  const auto side = static_cast<double>(std::max(preprocess.crop_height, preprocess.crop_width));
  StoreOptions options;
  options.channels = preprocess.channels;
  double bytes = static_cast<double>(split.size() * preprocess.channels) * side * side;
  if (whole) {
    options.shorter_side = kWholeSides * static_cast<int64_t>(side);
    bytes *= kWholeSides * kWholeSides * 4.0 / 3;  // photographs are three by four
  } else {
    options.prepare = preprocess;
  }
  if (config.cache == "nowhere") {
    options.keep = false;
  } else if (config.cache != "memory" && config.cache != "auto") {
    options.cache = config.cache;
  } else if (config.cache == "auto" && bytes > kMemoryBytes && !split.files.empty()) {
    const fs::path folder = model::CacheFolder();
    if (!folder.empty()) options.cache = folder / "images";
  }
  return options;
}

// What the tensors of the table are stored as: as in `like`, a file of the same library, where that has them.
std::vector<std::vector<std::string>> NamesOf(const model::VitConfig& config, const io::SafeTensors* like) {
  std::vector<std::vector<std::string>> names;
  for (const model::TensorSpec& spec : model::TensorTable(config)) {
    names.push_back(like ? model::NamesBeside(config, *like, spec.name, spec.name)
                         : model::StoredNames(model::LayoutOf(config), "", spec.name));
  }
  return names;
}

class Run {
 public:
  Run(const TrainConfig& config, const TrainingData& data, RunFolder& folder, const Observer& observer)
      : config_(config), data_(data), folder_(folder), observer_(observer) {
    if (config.threads > 0) SetNumThreads(static_cast<int>(config.threads));
  }

  Outcome Go() {
    Begin();
    OpenImages();
    OpenLogs();
    Outcome outcome;
    outcome.steps = schedule_.steps;
    outcome.why = Outcome::Why::kFinished;
    while (standing_.step < schedule_.steps) {
      if (NoBetter()) {
        outcome.why = Outcome::Why::kNoBetter;
        break;
      }
      TakeStep();
      const bool stopped = observer_.stop && observer_.stop();
      if (IsEvaluated(standing_.step)) {
        EvaluateAndSave();
      } else if (stopped || (config_.save_steps > 0 && standing_.step % config_.save_steps == 0)) {
        Save(standing_.evaluations == 0);
      }
      if (stopped && standing_.step < schedule_.steps) {
        outcome.why = Outcome::Why::kStopped;
        break;
      }
    }
    outcome.step = standing_.step;
    outcome.best_top1 = standing_.best_top1;
    outcome.best_epoch = standing_.best_epoch;
    outcome.images = images_;
    outcome.images_per_second = seconds_ > 0 ? static_cast<double>(images_) / seconds_ : 0;
    return outcome;
  }

 private:
  // The model, its weights and the state of everything: new, continued or resumed.
  void Begin() {
    const std::optional<Saved> saved = folder_.HasCheckpoint() ? std::optional(folder_.Load()) : std::nullopt;
    if (saved) {
      const model::Checkpoint last = model::Checkpoint::Open(folder_.last());
      start_.description = last.description;
      names_ = NamesOf(last.description.config, last.tensors.get());
      start_.config = ReadFile(folder_.last() / model::kConfigFile);
      standing_ = Standing::FromJson(saved->progress);
      Require(standing_.data == Fingerprint(data_), "train: the images are not those that {} was begun with",
              folder_.path().string());
    } else if (!config_.model.empty()) {
      source_.emplace(model::Checkpoint::Open(config_.model));
      start_ = ContinuedModel(*source_, config_, data_.classes);
    } else {
      start_ = NewModel(config_, data_.classes);
    }
    for (const std::string& text : start_.notes) Note(text);
    model_ = start_.description.config;
    network_.emplace(model_);
    weights_ = Tensor<float>({layout().size()});
    optimizer_.emplace(layout(), SettingsOf(config_));
    stepper_.emplace(*network_, *optimizer_, StepSettingsOf(config_));
    if (saved) {
      const io::StoredTensor* weights = saved->training.Find("weights");
      Require(weights != nullptr && weights->shape == weights_.shape(), "train: {} holds no weights of this model",
              folder_.path().string());
      io::ConvertTo(*weights, weights_.data());
      optimizer_->Restore(saved->training);
      return;
    }
    standing_.data = Fingerprint(data_);
    Initialisation how;
    how.scheme = config_.init == "mimetic" ? Initialisation::Scheme::kMimetic : Initialisation::Scheme::kTimm;
    how.seed = static_cast<uint64_t>(config_.seed);
    if (config_.layer_scale > 0) how.layer_scale = config_.layer_scale;
    Initialise<float>(model_, layout(), how, weights_);
    if (source_) CopyWeights(*source_, model_, layout(), weights_);
    const bool own = source_ && model_.family == source_->description.config.family;
    names_ = NamesOf(model_, own ? source_->tensors.get() : nullptr);
    source_.reset();
  }

  std::unique_ptr<ImageStore> OpenStore(const Split& split, bool whole) {
    StoreOptions options = StoreOptionsOf(config_, split, start_.description.preprocess, whole);
    if (observer_.reading) {
      options.progress = [&](int64_t done, int64_t total) { observer_.reading(split.name.c_str(), done, total); };
    }
    auto store = std::make_unique<ImageStore>(split, std::move(options));
    constexpr size_t kShown = 10;
    const std::span<const std::string> unreadable = store->unreadable();
    for (size_t i = 0; i < std::min(kShown, unreadable.size()); ++i) Note(unreadable[i]);
    if (!unreadable.empty()) {
      Note(fmt::format("{} of {} images of {} could not be read and are left out", unreadable.size(), split.size(),
                       split.name));
    }
    return store;
  }

  void OpenImages() {
    const image::Preprocess& preprocess = start_.description.preprocess;
    const Augmentation augmentation = AugmentationOf(config_, preprocess);
    train_images_ = OpenStore(data_.train, augmentation.crop == Augmentation::Crop::kResized);
    validation_images_ = OpenStore(data_.validation, false);
    LoaderOptions options;
    options.batch = config_.batch;
    options.preprocess = preprocess;
    options.augmentation = augmentation;
    options.seed = static_cast<uint64_t>(config_.seed);
    options.classes = model_.classes;
    options.first_step = standing_.step * config_.accumulate;
    options.threads = std::max(1, NumThreads() / 2);
    train_.emplace(*train_images_, options);
    LoaderOptions pass = options;
    pass.augmentation.reset();
    pass.batch = kEvaluationBatch;
    pass.first_step = 0;
    validation_.emplace(*validation_images_, pass);
    steps_per_epoch_ = std::max<int64_t>(1, train_->steps_per_epoch() / config_.accumulate);
    schedule_ = ScheduleOf(config_, steps_per_epoch_);
    Validate(schedule_);
  }

  void OpenLogs() {
    log_.emplace(folder_.path() / "log.jsonl", standing_.step);
    if (config_.tensorboard) events_.emplace(folder_.path(), standing_.step);
  }

  void Log(const char* event, const std::vector<std::pair<std::string, double>>& values) {
    io::Json line = {{"event", event}, {"step", standing_.step}, {"epoch", Epoch()}};
    std::vector<std::pair<std::string, double>> scalars;
    for (const auto& [name, value] : values) {
      line[name] = value;
      scalars.emplace_back(fmt::format("{}/{}", event, name), value);
    }
    log_->Append(line);
    if (events_) events_->Scalars(standing_.step, scalars);
  }

  void Note(const std::string& text) {
    if (observer_.note) observer_.note(text);
  }

  // That the last step belonged to, from 1.
  int64_t Epoch() const { return (standing_.step + steps_per_epoch_ - 1) / steps_per_epoch_; }

  bool IsEvaluated(int64_t step) const {
    return step == schedule_.steps || step % (config_.eval_epochs * steps_per_epoch_) == 0;
  }

  bool NoBetter() const { return config_.patience > 0 && standing_.without_better >= config_.patience; }

  const ParameterLayout& layout() const { return network_->layout(); }

  void TakeStep();
  void EvaluateAndSave();
  Evaluation Evaluate();
  void Save(bool best);

  // The weights that are evaluated and written.
  View<const float> Answer() const {
    return standing_.step > 0 && !optimizer_->average().empty() ? optimizer_->average() : View<const float>(weights_);
  }

  std::vector<io::StoredTensor> ModelTensors() const {
    std::vector<io::StoredTensor> tensors;
    for (const Slot& slot : layout().slots()) {
      tensors.push_back(io::Stored<float>(slot.name, layout().At(slot.name, Answer())));
    }
    return tensors;
  }

  const TrainConfig& config_;
  const TrainingData& data_;
  RunFolder& folder_;
  const Observer& observer_;

  Start start_;
  std::optional<model::Checkpoint> source_;      // that weights are taken from
  std::vector<std::vector<std::string>> names_;  // that the model's tensors are written under
  model::VitConfig model_;
  std::optional<Network<float>> network_;
  Tensor<float> weights_;  // [P]
  std::optional<Optimizer<float>> optimizer_;
  std::optional<Stepper<float>> stepper_;
  Schedule schedule_;
  Standing standing_;

  std::unique_ptr<ImageStore> train_images_, validation_images_;
  std::optional<Loader> train_, validation_;
  int64_t steps_per_epoch_ = 1;

  std::optional<train::Log> log_;
  std::optional<EventFile> events_;
  int64_t images_ = 0, steps_ = 0;  // of this process
  double seconds_ = 0;              // that its steps took
};

Evaluation Run::Evaluate() {
  const std::vector<io::StoredTensor> stored = ModelTensors();
  std::vector<model::BoundTensor> bound;
  const std::vector<model::TensorSpec> table = model::TensorTable(model_);
  for (size_t i = 0; i < table.size(); ++i) bound.push_back({table[i], {&stored[i]}});
  const model::Vit<float> vit(model_, bound);

  Evaluation evaluation(model_.classes);
  Tensor<float> logits({kEvaluationBatch, model_.classes});
  std::vector<model::Workspace<float>> workspaces(static_cast<size_t>(NumThreads()));
  validation_->Seek(0);
  while (const LoadedBatch* batch = validation_->Next()) {
    const int64_t images = batch->pixels.dim(0);
    ParallelTasks(images, [&](int64_t i, int thread) {
      model::Outputs<float> outputs;
      outputs.logits = logits.view().slice(0, i, i + 1);
      vit.Forward(batch->pixels.slice(0, i, i + 1), workspaces[static_cast<size_t>(thread)], outputs);
    });
    evaluation.Add(logits.view().slice(0, 0, images), batch->labels);
  }
  return evaluation;
}

void Run::TakeStep() {
  const Clock::time_point begin = Clock::now();
  const double rate = LearningRate(schedule_, standing_.step);
  for (int64_t i = 0; i < config_.accumulate; ++i) {
    const LoadedBatch* batch = train_->Next();
    stepper_->Add(weights_, {.pixels = batch->pixels,
                             .labels = batch->labels,
                             .targets = batch->targets,
                             .first_image = i * config_.batch + batch->first_image});
  }
  const auto [sum, norm] = stepper_->Apply(rate, weights_);
  ++standing_.step;
  standing_.logged += sum;
  standing_.evaluated += sum;
  images_ += sum.rows;
  seconds_ += SecondsSince(begin);
  ++steps_;

  StepReport report;
  report.step = standing_.step;
  report.steps = schedule_.steps;
  report.epoch = Epoch();
  report.loss = sum.loss / Rows(sum);
  report.accuracy = static_cast<double>(sum.correct) / Rows(sum);
  report.learning_rate = rate;
  report.gradient_norm = norm;
  report.images_per_second = static_cast<double>(images_) / seconds_;
  report.seconds_left = seconds_ / static_cast<double>(steps_) * static_cast<double>(schedule_.steps - standing_.step);
  if (standing_.step % config_.log_steps == 0) {
    const LossSum& logged = standing_.logged;
    Log("train", {{"loss", logged.loss / Rows(logged)},
                  {"accuracy", static_cast<double>(logged.correct) / Rows(logged)},
                  {"learning_rate", rate},
                  {"gradient_norm", norm},
                  {"images_per_second", report.images_per_second}});
    standing_.logged = {};
  }
  if (observer_.step) observer_.step(report);
}

void Run::EvaluateAndSave() {
  const Evaluation evaluation = Evaluate();
  EvaluationReport report;
  report.step = standing_.step;
  report.epoch = Epoch();
  const LossSum& training = standing_.evaluated;
  report.train_loss = training.loss / Rows(training);
  report.train_accuracy = static_cast<double>(training.correct) / Rows(training);
  report.loss = evaluation.nll();
  report.top1 = evaluation.top1();
  report.top5 = evaluation.top5();
  report.best = standing_.Rate(report.epoch, report.top1, report.loss);
  standing_.evaluated = {};
  Log("evaluation", {{"train_loss", report.train_loss},
                     {"train_accuracy", report.train_accuracy},
                     {"loss", report.loss},
                     {"top1", report.top1},
                     {"top5", report.top5},
                     {"calibration_error", evaluation.calibration_error()}});
  Save(report.best);
  if (observer_.evaluation) observer_.evaluation(report);
}

void Run::Save(bool best) {
  Snapshot snapshot;
  snapshot.config = start_.config;
  const std::vector<io::StoredTensor> tensors = ModelTensors();
  for (size_t i = 0; i < tensors.size(); ++i) model::AddParts(tensors[i], names_[i], &snapshot.model);
  snapshot.best = best;
  snapshot.training = optimizer_->Store();
  snapshot.training.push_back(io::Stored<float>("weights", View<const float>(weights_)));
  snapshot.progress = standing_.ToJson();
  folder_.Commit(snapshot);
}

}  // namespace

Outcome Train(const TrainConfig& config, const TrainingData& data, RunFolder& folder, const Observer& observer) {
  return Run(config, data, folder, observer).Go();
}

}  // namespace qkv::train
