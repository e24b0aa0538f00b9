// A training step to be timed, for `qkv bench --train` and `qkv ablate`.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "qkv/train/network/sequence_network.h"
#include "qkv/train/optimizer/step.h"

namespace qkv::lab {

/// Pixels [count, channels, height, width], or tokens [count, length], which are the same every time.
Tensor<float> RandomInputs(const model::VitConfig& config, int64_t count);
Tensor<int32_t> RandomInputs(const model::SequenceConfig& config, int64_t count);

/// A step of AdamW on a batch of random inputs. Net: train::Network or train::SequenceNetwork.
template <template <typename> class Net>
class TimedStep {
 public:
  using Config = std::remove_cvref_t<decltype(std::declval<const Net<float>&>().config())>;

  TimedStep(const Config& config, int64_t batch, bool bf16);

  /// The first one sizes the workspaces.
  void Run();
  const Config& config() const { return network_.config(); }
  /// Gradients, activations and scratch.
  int64_t bytes() const { return stepper_.peak_bytes(); }

 private:
  Net<float> network_;
  train::Optimizer<float> optimizer_;
  train::Stepper<float, Net> stepper_;
  Tensor<float> weights_;
  decltype(RandomInputs(std::declval<const Config&>(), 1)) inputs_;
  std::vector<int64_t> labels_;
};

}  // namespace qkv::lab
