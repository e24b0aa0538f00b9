// One fold's model with its training data, for the loop of train/run/loop.h: a bag at a time, several a step.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "qkv/mil/bag_store.h"
#include "qkv/mil/network.h"
#include "qkv/mil/training.h"
#include "qkv/train/run/loop.h"

namespace qkv::mil {

class MilLearner : public train::Learner {
 public:
  /// All must outlive this. data: fingerprint of the whole cohort.
  MilLearner(const MilOptions& options, const Cohort& cohort, const Fold& fold, int64_t fold_number, BagStore& bags,
             uint64_t data);

  const char* unit() const override { return "slides"; }
  const train::ParameterLayout& layout() const override { return network_.layout(); }
  uint64_t data() const override { return data_; }
  void Initialise(View<float> weights) override { network_.Initialise(seed_, weights); }
  void Open(train::Optimizer<float>& optimizer, int64_t step) override;
  int64_t steps_per_epoch() const override;
  int64_t evaluated_rows() const override { return std::ssize(fold_.validation); }
  train::StepResult Step(double learning_rate, View<float> weights) override;
  std::optional<train::Score> Evaluate(View<const float> weights, const std::function<bool()>& stop) override;
  std::string config() const override;
  std::vector<io::StoredTensor> Tensors(View<const float> weights) const override;

 private:
  int64_t label(int64_t slide) const { return cohort_.slides[static_cast<size_t>(slide)].label; }
  const std::vector<int64_t>& Order(int64_t epoch);
  bool Checkpoints(int64_t tiles) const;
  void RequireRoom(int64_t slide, int64_t tiles) const;

  const MilOptions& options_;
  const Cohort& cohort_;
  const Fold& fold_;
  BagStore& bags_;
  const uint64_t seed_, data_;
  MilNetwork<float> network_;
  std::vector<double> class_weights_;
  MilNetwork<float>::Workspace workspace_;
  train::Optimizer<float>* optimizer_ = nullptr;
  Tensor<float> gradients_;                   // [P]
  Tensor<float> logits_, dlogits_, targets_;  // [1, C]
  int64_t step_ = 0;
  int64_t epoch_ = -1;          // of order_
  std::vector<int64_t> order_;  // slides of the training part
};

}  // namespace qkv::mil
