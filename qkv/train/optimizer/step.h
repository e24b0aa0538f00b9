// One optimiser step over a batch of images or sequences, with gradient accumulation over several batches. Splits a
// batch into chunks and distributes them over threads.
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
  double smoothing = 0;                                      // label smoothing, see LossOptions
  double dropout = 0, attention_dropout = 0, drop_path = 0;  // see NetworkOptions
  bool checkpointing = false, bf16 = false;                  // see NetworkOptions
  uint64_t seed = 0;                                         // of the whole run; every step derives its own
  Communicator* processes = nullptr;  // processes that train together, with equal weights; null: one process
};

/// Inputs of a network and their labels. R is the number of rows of logits: one per image, or one per token.
template <typename T, template <typename> class Net = Network>
struct Batch {
  typename Net<T>::Input inputs;    // pixels [B, channels, height, width], tokens [B, N], or a PairInput
  std::span<const int64_t> labels;  // [R], as CrossEntropy takes them; used if targets is empty
  View<const T> targets = {};       // [R, classes], or empty
  int64_t first = 0;                // index of inputs[0] within the step; seeds its random masks
};

struct StepResult {
  LossSum sum;               // over all rows of the step
  double gradient_norm = 0;  // of the mean gradient, before clipping
};

/// How a batch is distributed.
struct StepPlan {
  int64_t workers = 1;  // threads that each process a share of the batch; 1: all threads share each layer
  int64_t chunk = 1;    // greatest number of inputs computed together
};

/// The plan for B inputs of N tokens and a model of P parameters on this many threads.
StepPlan PlanStep(int64_t N, int64_t P, int64_t B, int threads);

/// Runs training steps. On one machine, a run repeats bit for bit with the same number of threads. Another number of
/// threads, or another accumulation of the same inputs, only changes the order of sums.
template <typename T, template <typename> class Net = Network>
class Stepper {
 public:
  /// The arguments must outlive this object.
  Stepper(const Net<T>& network, Optimizer<T>& optimizer, const StepSettings& settings);

  /// Accumulates the gradients of a batch into this step's. With several processes, each adds its part; with `last`,
  /// gradients are summed over the processes during the backward pass. The second call of a shape allocates nothing.
  /// Throws Error if shapes or labels do not fit; the step's gradients are then lost, and the processes cannot continue
  /// together.
  void Add(View<const T> weights, const Batch<T, Net>& batch, bool last = false);

  /// Updates the weights with the mean gradient over all rows, ignored ones excepted, that were added since the last
  /// Apply in all processes. At least one row is needed. Throws Error, with weights and optimizer unchanged, if the
  /// gradients are not finite.
  StepResult Apply(double learning_rate, View<T> weights);

  /// Peak memory in bytes: gradients, activations and scratch.
  int64_t peak_bytes() const;

 private:
  // State of one thread.
  struct Worker {
    Tensor<T> gradients;  // [P]
    typename Net<T>::Workspace workspace;
    Tensor<T> logits;  // [rows of a chunk, classes]; later their gradient
    LossSum sum;
  };

  void Compute(Worker& worker, View<const T> weights, const Batch<T, Net>& batch, int64_t begin, int64_t end,
               const std::function<void(int64_t, int64_t)>& finished);
  void DropPendingSums();
  void SumOverProcesses();

  const Net<T>& network_;
  Optimizer<T>& optimizer_;
  StepSettings settings_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<View<T>> gradients_;  // of the workers
  LossSum sum_;
  std::optional<Reduction<T>> reduction_;  // with several processes
};

}  // namespace qkv::train
