// AdamW and SGD on a model's flat buffers, gradient clipping, and an exponential moving average of the weights.
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
    kAdamW,  // Loshchilov and Hutter 2019, as torch.optim.AdamW: decoupled weight decay
    kSgd,    // with momentum, as torch.optim.SGD without dampening: L2 decay is added to the gradient
  };
  Kind kind = Kind::kAdamW;
  double weight_decay = 0.05;                     // for slots that decay
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  // kAdamW
  double momentum = 0.9;                          // kSgd
  bool nesterov = false;                          // kSgd
  double clip_norm = 0;      // gradients of a greater norm are scaled to it, as torch's clip_grad_norm_; 0: no clipping
  double average_decay = 0;  // decay of the moving average of the weights; 0: no average
  bool average_warmup = true;  // the decay rises as in timm's ModelEmaV3 (γ = 1, power ⅔)
};

/// Throws Error if a setting is out of range.
void Validate(const OptimizerSettings& settings);

/// Weight of the old moving average at step 1, 2, …: 0 at the first step, then `average_decay`, with warm-up at most 1
/// − step^(−⅔).
double AverageDecay(const OptimizerSettings& settings, int64_t step);

/// Adds buffers[1], buffers[2], … to buffers[0], in this order, and zeros them. All are [P]; only elements [begin,
/// end).
template <typename T>
void SumGradients(std::span<const View<T>> buffers, int64_t begin, int64_t end);

/// Optimiser state: everything of training besides the weights. Steps give the same bits for any number of threads.
template <typename T>
class Optimizer {
 public:
  /// Throws Error if the settings are invalid.
  Optimizer(const ParameterLayout& layout, const OptimizerSettings& settings);

  /// Updates the weights from `scale` · gradients, in one pass over all buffers, and zeros the gradients for the next
  /// sum. Returns the norm of the scaled gradients before clipping. Throws Error, with nothing changed, if the norm is
  /// not finite.
  double Step(double learning_rate, View<T> weights, View<T> gradients, double scale = 1);

  int64_t steps() const { return steps_; }
  /// [P]; empty without averaging, zero before the first step.
  View<T> mutable_average() { return average_; }
  View<const T> average() const { return average_.empty() ? View<const T>() : average_.view(); }

  /// The state as tensors optimizer.step, .moment1 (kSgd: .momentum), .moment2 and .average, to write to a file. They
  /// point into the optimizer.
  std::vector<io::StoredTensor> Store() const;
  /// Restores a stored state bit for bit. Throws Error, with nothing changed, if a tensor is missing or has the wrong
  /// type or size.
  void Restore(const io::SafeTensors& from);

 private:
  struct Run {
    int64_t end;  // of consecutive elements that all decay or all do not
    bool decays;
  };

  template <typename Self>
  static auto Parts(Self& self);
  double Norm(View<const T> gradients);
  void Update(int64_t begin, int64_t end, bool decays, double learning_rate, double scale, T* weights, T* gradients);

  OptimizerSettings settings_;
  std::vector<Run> runs_;
  int64_t steps_ = 0;
  Tensor<T> moment1_, moment2_;  // [P]; kSgd: momentum, and empty
  Tensor<T> average_;            // [P] or empty
  std::vector<double> squares_;  // of the gradients, per piece
};

}  // namespace qkv::train
