// AdamW and SGD on the flat buffers of a model, gradient clipping, and the moving average of the weights.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/io/safetensors.h"
#include "qkv/train/network/flat_parameters.h"

namespace qkv::train {

struct OptimizerSettings {
  enum class Kind {
    kAdamW,  // Loshchilov and Hutter 2019, as torch.optim.AdamW: the decay is decoupled
    kSgd,    // with momentum, as torch.optim.SGD without dampening: the decay is added to the gradient
  };
  Kind kind = Kind::kAdamW;
  double weight_decay = 0.05;                     // of slots that decay
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  // kAdamW
  double momentum = 0.9;                          // kSgd
  bool nesterov = false;                          // kSgd
  double clip_norm = 0;        // gradients of a greater norm are scaled to it, as torch's clip_grad_norm_; 0: never
  double average_decay = 0;    // of the moving average of the weights; 0: there is none
  bool average_warmup = true;  // its decay rises as that of timm's ModelEmaV3 (γ = 1, power ⅔)
};

/// Throws Error when a number is out of its range.
void Validate(const OptimizerSettings& settings);

/// How much of the moving average stays at a step, 1, 2, …: nothing at the first, then `average_decay`, with warm-up
/// at most 1 − step^(−⅔).
double AverageDecay(const OptimizerSettings& settings, int64_t step);

/// sum of buffers[0], buffers[1], … in this order, left in the first; the others are left zero. All are [P]; of
/// elements [begin, end) only.
template <typename T>
void SumGradients(std::span<const View<T>> buffers, int64_t begin, int64_t end);

/// The state of training beside the weights. Every step gives the same bits for any number of threads.
template <typename T>
class Optimizer {
 public:
  /// Throws Error when the settings are not valid.
  Optimizer(const ParameterLayout& layout, const OptimizerSettings& settings);

  /// One step from `scale` times these gradients, in one pass over all buffers; they are left zero, ready for the next
  /// sum. Returns the norm before clipping, scaled too. Throws Error, with nothing changed, when that is not finite.
  double Step(double learning_rate, View<T> weights, View<T> gradients, double scale = 1);

  int64_t steps() const { return steps_; }
  /// [P]; empty without averaging, zeros before the first step.
  View<T> mutable_average() { return average_; }
  View<const T> average() const { return average_.empty() ? View<const T>() : average_.view(); }

  /// The state as tensors optimizer.step, .moment1 (kSgd: .momentum), .moment2 and .average, to be written to a file;
  /// they point into the optimizer.
  std::vector<io::StoredTensor> Store() const;
  /// Continues from there, to the bit. Throws Error, with nothing changed, when a tensor is missing, or of another type
  /// or size.
  void Restore(const io::SafeTensors& from);

 private:
  struct Run {
    int64_t end;  // of consecutive elements, all of which decay or none
    bool decays;
  };

  template <typename Self>
  static auto Parts(Self& self);
  double Norm(View<const T> gradients);
  void Update(int64_t begin, int64_t end, bool decays, double learning_rate, double scale, T* weights, T* gradients);

  OptimizerSettings settings_;
  std::vector<Run> runs_;
  int64_t steps_ = 0;
  Tensor<T> moment1_, moment2_;  // [P]; kSgd: the momentum and none
  Tensor<T> average_;            // [P] or empty
  std::vector<double> squares_;  // of the gradients of each piece
};

}  // namespace qkv::train
