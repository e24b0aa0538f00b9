// The learner of sequence models; image_run.cc has that of images.
#include <algorithm>
#include <optional>

#include "qkv/core/parallel.h"
#include "qkv/core/thread_count.h"
#include "qkv/model/checkpoint/sequence_checkpoint.h"
#include "qkv/model/layout/bound_tensor.h"
#include "qkv/model/layout/tensor_table.h"
#include "qkv/model/sequence/sequence_model.h"
#include "qkv/train/network/sequence_network.h"
#include "qkv/train/run/image_run.h"
#include "qkv/train/run/initial_model.h"
#include "qkv/train/sequences/evaluation.h"

namespace qkv::train {
namespace {

class SequenceLearner : public Learner {
 public:
  SequenceLearner(const TrainConfig& config, const SequenceData& data, const RunFolder& folder,
                  const Observer& observer, Communicator* processes)
      : config_(config), data_(data), observer_(observer), processes_(processes ? *processes : alone_) {
    Require(config.batch % processes_.size() == 0,
            "train: {} processes cannot share a batch of {} evenly: expected a multiple", processes_.size(),
            config.batch);
    if (folder.HasCheckpoint()) {
      network_.emplace(model::SequenceCheckpoint::Open(folder.last()).config);
    } else if (!config.model.empty()) {
      source_ = model::SequenceCheckpoint::Open(config.model);
      RequireFit(source_->config, data, config.model);
      network_.emplace(source_->config);
    } else {
      network_.emplace(NewSequenceModel(config, data));
    }
    const int64_t share = config.batch / processes_.size();
    tokens_ = Tensor<int32_t>({share, data.length});
    labels_ = Tensor<int64_t>({share, data.length});
  }

  const char* unit() const override { return "tokens"; }
  const ParameterLayout& layout() const override { return network_->layout(); }
  uint64_t data() const override { return data_.fingerprint; }

  void Initialise(View<float> weights) override {
    if (!source_) return train::Initialise<float>(network_->config(), layout(), MakeInitialisation(config_), weights);
    for (const model::BoundTensor& bound : source_->bound) {
      const Tensor<float> from = model::Read<float>(bound);
      std::copy_n(from.data(), from.size(), layout().At(bound.spec.name, weights).data());
    }
    source_.reset();
  }

  void Open(Optimizer<float>& optimizer, int64_t step) override {
    StepSettings settings = MakeStepSettings(config_);
    settings.processes = &processes_;
    stepper_.emplace(*network_, optimizer, settings);
    step_ = step;
  }

  int64_t steps_per_epoch() const override {
    return std::max<int64_t>(1, data_.train->size() / (config_.batch * config_.accumulate));
  }

  StepResult Step(double learning_rate, View<float> weights) override {
    for (int64_t i = 0; i < config_.accumulate; ++i) {
      const int64_t first = i * config_.batch + processes_.rank() * tokens_.dim(0);
      data_.train->Get(step_ * config_.accumulate * config_.batch + first, tokens_, labels_);
      stepper_->Add(weights, {.inputs = tokens_, .labels = labels_.span(), .first = first},
                    i + 1 == config_.accumulate);
    }
    ++step_;
    return stepper_->Apply(learning_rate, weights);
  }

  int64_t evaluated_rows() const override { return data_.validation->size() * data_.length; }

  // With several processes, each evaluates everything and gets the same result.
  std::optional<Score> Evaluate(View<const float> weights, const std::function<bool()>& stop) override {
    const std::vector<io::StoredTensor> stored = Tensors(weights);
    std::vector<model::BoundTensor> bound;
    const std::vector<model::TensorSpec> table = model::TensorTable(network_->config());
    for (size_t i = 0; i < table.size(); ++i) bound.push_back({table[i], {&stored[i]}});
    const model::SequenceModel<float> model(network_->config(), bound);
    const SequenceScore score = train::Evaluate(model, *data_.validation, data_.length, observer_.stop);
    if (stop()) return {};
    return Score{.loss = score.loss(),
                 .top1 = score.top1(),
                 .by_loss = data_.text,
                 .more = {{"perplexity", score.perplexity()}, {"whole_sequences", score.whole_sequences()}}};
  }

  std::string config() const override { return model::ToJson(network_->config()).dump(2) + "\n"; }
  std::vector<io::StoredTensor> Tensors(View<const float> weights) const override {
    std::vector<io::StoredTensor> tensors;
    for (const Slot& slot : layout().slots()) {
      tensors.push_back(io::Stored<float>(slot.name, layout().At(slot.name, weights)));
    }
    return tensors;
  }

 private:
  const TrainConfig& config_;
  const SequenceData& data_;
  const Observer& observer_;
  Communicator alone_;
  Communicator& processes_;
  std::optional<model::SequenceCheckpoint> source_;  // source of the initial weights
  std::optional<SequenceNetwork<float>> network_;
  std::optional<Stepper<float, SequenceNetwork>> stepper_;
  int64_t step_ = 0;
  Tensor<int32_t> tokens_;  // [this process's batch, length]
  Tensor<int64_t> labels_;
};

}  // namespace

Outcome Train(const TrainConfig& config, const SequenceData& data, RunFolder& folder, const Observer& observer,
              Communicator* processes) {
  const ThreadCount threads(config.threads > 0 ? static_cast<int>(config.threads) : NumThreads());
  SequenceLearner learner(config, data, folder, observer, processes);
  return RunLoop(config, learner, folder, observer, processes);
}

}  // namespace qkv::train
