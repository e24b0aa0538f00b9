// One step of the optimiser over a batch of images or sequences, or several whose gradients are summed: the batch cut
// into chunks, the chunks shared out to threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/train/network/loss.h"
#include "qkv/train/network/network.h"
#include "qkv/train/optimizer/optimizer.h"
#include "qkv/train/optimizer/reduction.h"

namespace qkv::train {

struct StepSettings {
  double smoothing = 0;                                      // of labels, see LossOptions
  double dropout = 0, attention_dropout = 0, drop_path = 0;  // see NetworkOptions
  bool checkpoint = false, bf16 = false;                     // see NetworkOptions
  uint64_t seed = 0;                  // of the whole training; every step draws numbers of its own
  Communicator* processes = nullptr;  // that take each step together, all with the same weights; null: one by itself
};

/// What a network takes, and what is right for it. R rows of logits: one for an image, one for each token of a
/// sequence.
template <typename T, template <typename> class Net = Network>
struct Batch {
  typename Net<T>::Input inputs;    // pixels [B, channels, height, width], or tokens [B, N]
  std::span<const int64_t> labels;  // [R], as CrossEntropy takes them; used where there are no targets
  View<const T> targets = {};       // [R, classes], or empty
  int64_t first = 0;                // which of the step's inputs[0] is: what is drawn for it depends on that
};

struct StepResult {
  LossSum sum;               // over all rows of the step
  double gradient_norm = 0;  // of the mean's gradient, before clipping
};

/// How a batch is worked on.
struct StepPlan {
  int64_t workers = 1;  // that each have a share of the batch, one thread each; 1: threads share each layer
  int64_t chunk = 1;    // inputs computed together, at most
};

/// The plan for B inputs of N tokens and a model of P parameters on so many threads.
StepPlan PlanStep(int64_t N, int64_t P, int64_t B, int threads);

/// Takes steps. A run repeats to the bit on one machine at a given number of threads; another number, or other
/// accumulation of the same inputs, changes no more than the order of sums.
template <typename T, template <typename> class Net = Network>
class Stepper {
 public:
  /// Both must outlive it.
  Stepper(const Net<T>& network, Optimizer<T>& optimizer, const StepSettings& settings);

  /// Adds the gradients of a batch to those of this step; of several processes, each adds its part. With the last of
  /// the step, gradients are summed over the processes while they are computed. The second call of a shape allocates
  /// nothing more. Throws Error when shapes or labels do not fit; what the step has so far is lost then, and processes
  /// cannot go on together.
  void Add(View<const T> weights, const Batch<T, Net>& batch, bool last = false);

  /// One step of the optimiser by the mean over all rows that were added since the last and count, in all processes, at
  /// least one. Throws Error, with weights and optimizer unchanged, when the gradients are not finite.
  StepResult Apply(double learning_rate, View<T> weights);

  /// The most bytes that this has held at a time: gradients, activations and scratch.
  int64_t peak_bytes() const;

 private:
  // A thread's own.
  struct Worker {
    Tensor<T> gradients;  // [P]
    typename Net<T>::Workspace workspace;
    Tensor<T> logits;  // [chunk's rows, classes], then their gradient
    LossSum sum;
  };

  void Compute(Worker& worker, View<const T> weights, const Batch<T, Net>& batch, int64_t begin, int64_t end,
               const std::function<void(int64_t, int64_t)>& finished);
  void Forget();
  void SumOverProcesses();

  const Net<T>& network_;
  Optimizer<T>& optimizer_;
  StepSettings settings_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<View<T>> gradients_;  // of the workers
  LossSum sum_;
  std::optional<Reduction<T>> reduction_;  // over processes, where there are several
};

}  // namespace qkv::train
