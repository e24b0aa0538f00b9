#include "qkv/train/run/image_run.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/core/thread_count.h"
#include "qkv/model/checkpoint/convert_tensors.h"
#include "qkv/model/checkpoint/model_folder.h"
#include "qkv/model/families/families.h"
#include "qkv/model/layout/bound_tensor.h"
#include "qkv/model/layout/tensor_names.h"
#include "qkv/model/layout/tensor_table.h"
#include "qkv/model/vision/vit.h"
#include "qkv/model/vision/vit_cache.h"
#include "qkv/train/data/image_store.h"
#include "qkv/train/data/loader.h"
#include "qkv/train/network/initialise.h"
#include "qkv/train/optimizer/step.h"
#include "qkv/train/run/evaluation.h"
#include "qkv/train/run/initial_model.h"
#include "qkv/train/run/run_state.h"

namespace qkv::train {
namespace {

namespace fs = std::filesystem;

// Default limit of decoded images kept in memory, by estimate. Images of unusual shapes may exceed it, up to
// kMostMemoryBytes.
constexpr double kMemoryBytes = 2e9, kMostMemoryBytes = 4e9;
// Default limit of all files in the user's cache folder.
constexpr double kCacheBytes = 20e9;
// Batch size of evaluation.
constexpr int64_t kEvaluationBatch = 64;
// Random resized crops need more pixels than they show; at twice the side nothing visible to the model is lost.
constexpr int64_t kWholeSides = 2;

Augmentation MakeAugmentation(const TrainConfig& config, const image::Preprocess& preprocess) {
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
  a.fill = MeanLevels(preprocess);
  a.jitter = config.jitter;
  a.erase = config.erase;
  a.mixup = config.mixup;
  a.cutmix = config.cutmix;
  return a;
}

// Options of the image store of a split.
StoreOptions MakeStoreOptions(const TrainConfig& config, const Split& split, const model::Description& description,
                              bool whole) {
  const image::Preprocess& preprocess = description.preprocess;
  const auto side = static_cast<double>(std::max(preprocess.crop_height, preprocess.crop_width));
  StoreOptions options;
  options.channels = preprocess.channels;
  options.dark_background = description.dark_background;
  double bytes = static_cast<double>(split.size() * preprocess.channels) * side * side;
  if (whole) {
    options.shorter_side = kWholeSides * static_cast<int64_t>(side);
    bytes *= kWholeSides * kWholeSides * 4.0 / 3;  // assumes an aspect ratio of 3 : 4
  } else {
    options.prepare = preprocess;
  }
  options.expected_bytes = bytes;
  options.memory_bytes = kMostMemoryBytes;
  if (config.cache == "nowhere") {
    options.keep = false;
  } else if (config.cache == "memory") {
    options.memory_bytes = static_cast<double>(MemoryLimit());
  } else if (config.cache != "auto") {
    options.cache = config.cache;
  } else if (bytes > kMemoryBytes && !split.files.empty()) {
    const fs::path folder = model::CacheFolder();
    if (!folder.empty()) options.cache = folder / "images";
    options.cache_bytes = kCacheBytes;
  }
  return options;
}

// Names under which the table's tensors are stored: those of `like`, a file of the same library, where it has them.
std::vector<std::vector<std::string>> ChooseTensorNames(const model::VitConfig& config, const io::TensorSet* like) {
  std::vector<std::vector<std::string>> names;
  const model::Layout& layout = model::GetLayout(config);
  for (const model::TensorSpec& spec : model::TensorTable(config)) {
    names.push_back(like ? model::NamesBeside(layout, *like, spec.name, spec.name)
                         : model::StoredNames(layout, "", spec.name));
  }
  return names;
}

// Images and the Vision Transformer that trains on them: new, continued or resumed.
class ImageLearner : public Learner {
 public:
  ImageLearner(const TrainConfig& config, const TrainingData& data, const RunFolder& folder, const Observer& observer,
               Communicator* processes)
      : config_(config), data_(data), observer_(observer), processes_(processes ? *processes : alone_) {
    if (folder.HasCheckpoint()) {
      const model::Checkpoint last = model::Checkpoint::Open(folder.last());
      initial_.description = last.description;
      initial_.config = ReadFile(folder.last() / model::kConfigFile);
      names_ = ChooseTensorNames(last.description.config, last.tensors.get());
    } else if (!config.model.empty()) {
      source_.emplace(model::Checkpoint::Open(config.model));
      model::RequireKnownPreprocess(source_->description);
      initial_ = ContinuedModel(*source_, config, data.classes);
      const bool own = model().family == source_->description.config.family;
      names_ = ChooseTensorNames(model(), own ? source_->tensors.get() : nullptr);
    } else {
      initial_ = NewModel(config, data.classes);
      names_ = ChooseTensorNames(model(), nullptr);
    }
    for (const std::string& text : initial_.notes) Note(text);
    network_.emplace(model());
  }

  const char* unit() const override { return "images"; }
  const ParameterLayout& layout() const override { return network_->layout(); }
  uint64_t data() const override { return Fingerprint(data_); }

  void Initialise(View<float> weights) override {
    train::Initialise<float>(model(), layout(), MakeInitialisation(config_), weights);
    if (source_) CopyWeights(*source_, model(), layout(), data_.classes, weights);
    source_.reset();
  }

  void Open(Optimizer<float>& optimizer, int64_t step) override {
    StepSettings settings = MakeStepSettings(config_);
    settings.processes = &processes_;
    stepper_.emplace(*network_, optimizer, settings);
    step_ = step;
    const image::Preprocess& preprocess = initial_.description.preprocess;
    const Augmentation augmentation = MakeAugmentation(config_, preprocess);
    const int64_t even = (augmentation.mixes() ? 2 : 1) * processes_.size();
    Require(processes_.alone() || config_.batch % even == 0,
            "train: {} processes cannot share a batch of {} evenly: expected a multiple of {}", processes_.size(),
            config_.batch, even);
    train_images_ = OpenStore(data_.train, augmentation.crop == Augmentation::Crop::kResized);
    validation_images_ = OpenStore(data_.validation, false);
    LoaderOptions options;
    options.batch = config_.batch;
    options.shard = processes_.rank();
    options.shards = processes_.size();
    options.preprocess = preprocess;
    options.augmentation = augmentation;
    options.seed = static_cast<uint64_t>(config_.seed);
    options.classes = model().classes;
    options.first_step = step * config_.accumulate;
    options.threads = std::max(1, NumThreads() / 2);
    train_.emplace(*train_images_, options);
    LoaderOptions pass = options;
    pass.augmentation.reset();
    pass.batch = kEvaluationBatch * processes_.size();
    pass.first_step = 0;
    validation_.emplace(*validation_images_, pass);
  }

  int64_t steps_per_epoch() const override {
    return std::max<int64_t>(1, train_->steps_per_epoch() / config_.accumulate);
  }

  StepResult Step(double learning_rate, View<float> weights) override {
    for (int64_t i = 0; i < config_.accumulate; ++i) {
      const LoadedBatch* batch = train_->Next();
      stepper_->Add(weights,
                    {.inputs = batch->pixels,
                     .labels = batch->labels,
                     .targets = batch->targets,
                     .first = i * config_.batch + batch->first_image},
                    i + 1 == config_.accumulate);
    }
    ++step_;
    return stepper_->Apply(learning_rate, weights);
  }

  int64_t evaluated_rows() const override { return validation_images_->size(); }
  std::optional<Score> Evaluate(View<const float> weights, const std::function<bool()>& stop) override;

  std::string config() const override { return initial_.config; }
  std::vector<io::StoredTensor> Tensors(View<const float> weights) const override {
    const std::vector<io::StoredTensor> slots = Slots(weights);
    std::vector<io::StoredTensor> tensors;
    for (size_t i = 0; i < slots.size(); ++i) model::AddParts(slots[i], names_[i], &tensors);
    return tensors;
  }

 private:
  const model::VitConfig& model() const { return initial_.description.config; }

  // The epoch of the last step, from 1.
  int64_t Epoch() const { return (step_ + steps_per_epoch() - 1) / steps_per_epoch(); }

  void Note(const std::string& text) const {
    if (observer_.note) observer_.note(text);
  }

  std::unique_ptr<ImageStore> OpenStore(const Split& split, bool whole) {
    StoreOptions options = MakeStoreOptions(config_, split, initial_.description, whole);
    if (observer_.reading) {
      options.progress = [&](int64_t done, int64_t total) { observer_.reading(split.name.c_str(), done, total); };
    }
    options.note = observer_.note;
    options.stop = observer_.stop;
    if (!processes_.alone()) options.processes = &processes_;
    auto store = std::make_unique<ImageStore>(split, std::move(options));
    constexpr size_t kShown = 10;
    const std::span<const std::string> unreadable = store->unreadable();
    for (size_t i = 0; i < std::min(kShown, unreadable.size()); ++i) Note(unreadable[i]);
    if (!unreadable.empty()) {
      Note(fmt::format("warning: {} of {} images of {} could not be read and are left out", unreadable.size(),
                       split.size(), split.name));
    }
    return store;
  }

  // The tensors as slots of the buffer.
  std::vector<io::StoredTensor> Slots(View<const float> weights) const {
    std::vector<io::StoredTensor> slots;
    for (const Slot& slot : layout().slots()) {
      slots.push_back(io::Stored<float>(slot.name, layout().At(slot.name, weights)));
    }
    return slots;
  }

  const TrainConfig& config_;
  const TrainingData& data_;
  const Observer& observer_;
  Communicator alone_;
  Communicator& processes_;

  InitialModel initial_;
  std::optional<model::Checkpoint> source_;      // source of the initial weights
  std::vector<std::vector<std::string>> names_;  // names that the model's tensors are written under
  std::optional<Network<float>> network_;
  std::optional<Stepper<float>> stepper_;
  int64_t step_ = 0;  // taken
  std::unique_ptr<ImageStore> train_images_, validation_images_;
  std::optional<Loader> train_, validation_;
};

std::optional<Score> ImageLearner::Evaluate(View<const float> weights, const std::function<bool()>& stop) {
  const std::vector<io::StoredTensor> slots = Slots(weights);
  std::vector<model::BoundTensor> bound;
  const std::vector<model::TensorSpec> table = model::TensorTable(model());
  for (size_t i = 0; i < table.size(); ++i) bound.push_back({table[i], {&slots[i]}});
  const model::Vit<float> vit(model(), bound);

  Evaluation evaluation(model().classes);
  Tensor<float> logits({kEvaluationBatch, model().classes});
  std::vector<model::Workspace<float>> workspaces(static_cast<size_t>(NumThreads()));
  validation_->Seek(0);
  while (const LoadedBatch* batch = validation_->Next()) {
    if (stop()) return {};
    const int64_t images = batch->pixels.dim(0);  // none if the last batch is too small for all processes
    ParallelTasks(images, [&](int64_t i, int thread) {
      model::Outputs<float> outputs;
      outputs.logits = logits.view().slice(0, i, i + 1);
      vit.Forward(batch->pixels.slice(0, i, i + 1), workspaces[static_cast<size_t>(thread)], outputs);
    });
    evaluation.Add(logits.view().slice(0, 0, images), batch->labels);
  }
  if (!processes_.alone()) evaluation.Combine([&](std::span<double> values) { processes_.Sum(values); });
  if (observer_.evaluated) observer_.evaluated({vit, initial_.description, Epoch()});
  return Score{.loss = evaluation.nll(),
               .top1 = evaluation.top1(),
               .more = {{"top5", evaluation.top5()}, {"calibration_error", evaluation.calibration_error()}}};
}

}  // namespace

Outcome Train(const TrainConfig& config, const TrainingData& data, RunFolder& folder, const Observer& observer,
              Communicator* processes) {
  const ThreadCount threads(config.threads > 0 ? static_cast<int>(config.threads) : NumThreads());
  ImageLearner learner(config, data, folder, observer, processes);
  return RunLoop(config, learner, folder, observer, processes);
}

}  // namespace qkv::train
