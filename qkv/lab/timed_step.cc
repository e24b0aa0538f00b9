#include "qkv/lab/timed_step.h"

#include "qkv/core/rng.h"
#include "qkv/train/network/initialise.h"

namespace qkv::lab {
namespace {

// Number of targets of one input, and of classes of each.
struct Targets {
  int64_t count, of;
};

Targets CountTargets(const model::VitConfig& config) { return {1, config.classes}; }
Targets CountTargets(const model::SequenceConfig& config) { return {config.length, config.outputs}; }

}  // namespace

Tensor<float> RandomInputs(const model::VitConfig& config, int64_t count) {
  Tensor<float> pixels({count, config.channels, config.image_height, config.image_width});
  Rng rng(1);
  for (float& x : pixels.span()) x = static_cast<float>(rng.Normal());
  return pixels;
}

Tensor<int32_t> RandomInputs(const model::SequenceConfig& config, int64_t count) {
  Tensor<int32_t> tokens({count, config.length});
  Rng rng(1);
  for (int32_t& token : tokens.span()) {
    token = static_cast<int32_t>(rng.Next() % static_cast<uint64_t>(config.vocabulary));
  }
  return tokens;
}

template <template <typename> class Net>
TimedStep<Net>::TimedStep(const Config& config, int64_t batch, bool bf16)
    : network_(config),
      optimizer_(network_.layout(), {}),
      stepper_(network_, optimizer_, {.bf16 = bf16}),
      weights_({network_.layout().size()}),
      inputs_(RandomInputs(config, batch)) {
  train::Initialise<float>(config, network_.layout(), {}, weights_);
  const auto [count, of] = CountTargets(config);
  for (int64_t i = 0; i < batch * count; ++i) labels_.push_back(i % of);
}

template <template <typename> class Net>
void TimedStep<Net>::Run() {
  stepper_.Add(weights_, {.inputs = inputs_, .labels = labels_});
  stepper_.Apply(1e-3, weights_);
}

template class TimedStep<train::Network>;
template class TimedStep<train::SequenceNetwork>;

}  // namespace qkv::lab
