// A step of training to be timed: what `qkv bench --train` and `qkv ablate` share.
#pragma once

#include <cstdint>
#include <vector>

#include "qkv/train/step.h"

namespace qkv::cli {

/// A step of AdamW on a batch of random pixels, which is the same every time.
class TimedStep {
 public:
  TimedStep(const model::VitConfig& config, int64_t batch, bool bf16);

  /// The first one sizes the workspaces.
  void Run();
  const model::VitConfig& config() const { return network_.config(); }
  /// Gradients, activations and scratch.
  int64_t bytes() const { return stepper_.peak_bytes(); }

 private:
  train::Network<float> network_;
  train::Optimizer<float> optimizer_;
  train::Stepper<float> stepper_;
  Tensor<float> weights_, pixels_;
  std::vector<int64_t> labels_;
};

}  // namespace qkv::cli
