// One step of the optimiser over a batch of images, or several whose gradients are summed: the batch cut into chunks,
// the chunks shared out to threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/train/loss.h"
#include "qkv/train/network.h"
#include "qkv/train/optimizer.h"

namespace qkv::train {

struct StepSettings {
  double smoothing = 0;                                      // of labels, see LossOptions
  double dropout = 0, attention_dropout = 0, drop_path = 0;  // see NetworkOptions
  bool checkpoint = false, bf16 = false;                     // see NetworkOptions
  uint64_t seed = 0;  // of the whole training; every step draws numbers of its own
};

/// Images and what they are.
template <typename T>
struct ImageBatch {
  View<const T> pixels;             // [B, channels, height, width]
  std::span<const int64_t> labels;  // [B], used where there are no targets
  View<const T> targets = {};       // [B, classes], or empty
  int64_t first_image = 0;          // which image of the step pixels[0] is: what is drawn for it depends on that
};

struct StepResult {
  LossSum sum;               // over all images of the step
  double gradient_norm = 0;  // of the mean's gradient, before clipping
};

/// How a batch is worked on.
struct StepPlan {
  int64_t workers = 1;  // that each have a share of the images, one thread each; 1: threads share each layer
  int64_t chunk = 1;    // images computed together, at most
};

/// The plan for B images of a model of P parameters on so many threads.
StepPlan PlanStep(const model::VitConfig& config, int64_t P, int64_t B, int threads);

/// Takes steps. A run repeats to the bit on one machine at a given number of threads; another number, or other
/// accumulation of the same images, changes no more than the order of sums.
template <typename T>
class Stepper {
 public:
  /// Both must outlive it.
  Stepper(const Network<T>& network, Optimizer<T>& optimizer, const StepSettings& settings);

  /// Adds the gradients of a batch to those of this step. The second call of a shape allocates nothing more. Throws
  /// Error when shapes or labels do not fit; what the step has so far is lost then.
  void Add(View<const T> weights, const ImageBatch<T>& batch);

  /// One step of the optimiser by the mean over all images that were added since the last, at least one. Throws Error,
  /// with weights and optimizer unchanged, when the gradients are not finite.
  StepResult Apply(double learning_rate, View<T> weights);

  /// The most bytes that this has held at a time: gradients, activations and scratch.
  int64_t peak_bytes() const;

 private:
  // A thread's own.
  struct Worker {
    Tensor<T> gradients;  // [P]
    typename Network<T>::Workspace workspace;
    Tensor<T> logits;  // [chunk, classes], then their gradient
    LossSum sum;
  };

  void Compute(Worker& worker, View<const T> weights, const ImageBatch<T>& batch, int64_t begin, int64_t end);
  void Forget();

  const Network<T>& network_;
  Optimizer<T>& optimizer_;
  StepSettings settings_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<View<T>> gradients_;  // of the workers
  LossSum sum_;
};

}  // namespace qkv::train
