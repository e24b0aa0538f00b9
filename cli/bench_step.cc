#include "cli/bench_step.h"

#include "qkv/core/rng.h"
#include "qkv/train/initialise.h"

namespace qkv::cli {

TimedStep::TimedStep(const model::VitConfig& config, int64_t batch, bool bf16)
    : network_(config),
      optimizer_(network_.layout(), {}),
      stepper_(network_, optimizer_, {.bf16 = bf16}),
      weights_({network_.layout().size()}),
      pixels_({batch, config.channels, config.image_height, config.image_width}) {
  train::Initialise<float>(config, network_.layout(), {}, weights_);
  Rng rng(1);
  for (float& x : pixels_.span()) x = static_cast<float>(rng.Normal());
  for (int64_t i = 0; i < batch; ++i) labels_.push_back(i % config.classes);
}

void TimedStep::Run() {
  stepper_.Add(weights_, {.inputs = pixels_, .labels = labels_});
  stepper_.Apply(1e-3, weights_);
}

}  // namespace qkv::cli
