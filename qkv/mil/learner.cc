#include "qkv/mil/learner.h"

#include <algorithm>
#include <cmath>

#include "qkv/core/memory.h"
#include "qkv/core/rng.h"
#include "qkv/core/work.h"
#include "qkv/io/safetensors.h"
#include "qkv/train/network/loss.h"

namespace qkv::mil {
namespace {

// Streams of the run's seed.
constexpr uint64_t kOrder = 1, kTiles = 2, kMasks = 3;

}  // namespace

MilLearner::MilLearner(const MilOptions& options, const Cohort& cohort, const Fold& fold, int64_t fold_number,
                       BagStore& bags, uint64_t data)
    : options_(options),
      cohort_(cohort),
      fold_(fold),
      bags_(bags),
      seed_(MixSeed(static_cast<uint64_t>(options.seed), static_cast<uint64_t>(fold_number))),
      data_(data),
      network_(options.model),
      class_weights_(cohort.classes.size(), 1.0) {
  const int64_t C = std::ssize(cohort.classes);
  logits_ = Tensor<float>({1, C}), dlogits_ = Tensor<float>({1, C}), targets_ = Tensor<float>({1, C});
  if (!options.class_weights) return;
  std::vector<double> counts(class_weights_.size());
  for (const int64_t slide : fold.train) ++counts[static_cast<size_t>(label(slide))];
  for (size_t c = 0; c < counts.size(); ++c) {
    class_weights_[c] = static_cast<double>(fold.train.size()) / (static_cast<double>(counts.size()) * counts[c]);
  }
}

void MilLearner::Open(train::Optimizer<float>& optimizer, int64_t step) {
  optimizer_ = &optimizer;
  gradients_ = Tensor<float>({layout().size()});
  step_ = step;
}

int64_t MilLearner::steps_per_epoch() const {
  return std::max<int64_t>(1, std::ssize(fold_.train) / options_.accumulate);
}

// A function of the epoch alone, so that a resumed run needs no saved state.
const std::vector<int64_t>& MilLearner::Order(int64_t epoch) {
  if (epoch == epoch_) return order_;
  order_ = fold_.train;
  Rng rng(MixSeed(MixSeed(seed_, kOrder), static_cast<uint64_t>(epoch)));
  for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[rng.Next() % i]);
  epoch_ = epoch;
  return order_;
}

// Only inputs of blocks are kept once everything would take much of the memory: it takes a third more time.
bool MilLearner::Checkpoints(int64_t tiles) const {
  return network_.TrainingBytes(tiles, false) > static_cast<double>(MemoryLimit()) / 8;
}

void MilLearner::RequireRoom(int64_t slide, int64_t tiles) const {
  const double bytes = network_.TrainingBytes(tiles, Checkpoints(tiles));
  Require(bytes <= static_cast<double>(MemoryLimit()),
          "mil: {} tiles of slide {} need {} in training, and the limit is {}; train on some of them (--max-tiles)",
          tiles, cohort_.slides[static_cast<size_t>(slide)].name, FormatBytes(bytes),
          FormatBytes(static_cast<double>(MemoryLimit())));
}

train::StepResult MilLearner::Step(double learning_rate, View<float> weights) {
  const int64_t n = std::ssize(fold_.train), C = targets_.size();
  train::StepResult result;
  for (int64_t i = 0; i < options_.accumulate; ++i) {
    CheckCancelled();
    const int64_t at = step_ * options_.accumulate + i, epoch = at / n;
    const int64_t slide = Order(epoch)[static_cast<size_t>(at % n)];
    const uint64_t drawn =
        MixSeed(MixSeed(MixSeed(seed_, kTiles), static_cast<uint64_t>(epoch)), static_cast<uint64_t>(slide));
    const std::shared_ptr<const BagStore::Entry> bag = bags_.Sample(slide, options_.max_tiles, drawn);
    const int64_t tiles = bag->features.dim(0);
    RequireRoom(slide, tiles);
    const train::NetworkOptions pass{.dropout = options_.dropout,
                                     .attention_dropout = options_.attention_dropout,
                                     .seed = MixSeed(MixSeed(seed_, kMasks), static_cast<uint64_t>(at)),
                                     .checkpointing = Checkpoints(tiles)};
    network_.Forward(weights, bag->input(), pass, workspace_, logits_);
    std::fill_n(targets_.data(), C, 0.0f);
    const int64_t label_of = label(slide);
    targets_[label_of] = static_cast<float>(class_weights_[static_cast<size_t>(label_of)]);
    const train::LossOptions loss{.smoothing = options_.smoothing,
                                  .scale = 1 / static_cast<double>(options_.accumulate)};
    result.sum += train::CrossEntropy<float>(logits_, View<const float>(targets_), loss, dlogits_);
    network_.Backward(weights, dlogits_, workspace_, gradients_);
  }
  result.gradient_norm = optimizer_->Step(learning_rate, weights, gradients_);
  ++step_;
  return result;
}

std::optional<train::Score> MilLearner::Evaluate(View<const float> weights, const std::function<bool()>& stop) {
  train::LossSum sum;
  std::vector<Prediction> predictions;
  double weight = 0;
  for (const int64_t slide : fold_.validation) {
    const std::shared_ptr<const BagStore::Entry> bag = bags_.Get(slide);
    const int64_t tiles = bag->features.dim(0);
    RequireRoom(slide, tiles);
    network_.Forward(weights, bag->input(), {.checkpointing = Checkpoints(tiles)}, workspace_, logits_);
    std::fill_n(targets_.data(), targets_.size(), 0.0f);
    const auto of = static_cast<size_t>(label(slide));
    targets_[label(slide)] = static_cast<float>(class_weights_[of]);
    weight += class_weights_[of];
    sum += train::CrossEntropy<float>(logits_, View<const float>(targets_), {}, dlogits_);
    predictions.push_back({.patient = cohort_.slides[static_cast<size_t>(slide)].patient,
                           .label = label(slide),
                           .probabilities = Probabilities(View<const float>(logits_))});
    if (stop()) return {};
  }
  const Metrics metrics = Measure(predictions, std::ssize(cohort_.classes), 0, 0);
  train::Score score{.loss = sum.loss / weight, .top1 = metrics.accuracy.value, .by_loss = true};
  // The log holds numbers only; a part without one of the classes has no area.
  if (!std::isnan(metrics.auc.value)) score.more.emplace_back("auc", metrics.auc.value);
  return score;
}

std::string MilLearner::config() const { return ToJson(network_.config()).dump(2) + "\n"; }

std::vector<io::StoredTensor> MilLearner::Tensors(View<const float> weights) const {
  std::vector<io::StoredTensor> tensors;
  for (const train::Slot& slot : layout().slots()) {
    tensors.push_back(io::Stored<float>(slot.name, layout().At(slot.name, weights)));
  }
  return tensors;
}

}  // namespace qkv::mil
