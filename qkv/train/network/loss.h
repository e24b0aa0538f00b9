// Softmax cross entropy over rows of logits (images, or tokens of sequences), and its gradient.
#pragma once

#include <cstdint>
#include <span>

#include "qkv/core/tensor.h"

namespace qkv::train {

/// The label of a row that does not count, PyTorch's.
inline constexpr int64_t kIgnoredLabel = -100;

/// Sums over rows, so that those of chunks and processes can be added; the mean is loss / rows.
struct LossSum {
  double loss = 0;
  int64_t rows = 0;     // that counted
  int64_t correct = 0;  // whose greatest logit is the label's; of soft targets: where the target is greatest

  LossSum& operator+=(const LossSum& other) {
    loss += other.loss, rows += other.rows, correct += other.correct;
    return *this;
  }
};

struct LossOptions {
  double smoothing = 0;  // ε: targets become (1 − ε) target + ε / C (Szegedy et al. 2016)
  double scale = 1;      // of the gradient: 1 / rows of the whole batch for the mean
};

/// Loss of a row: −Σ_c t_c log softmax(z)_c. logits z: [R, C]; labels: [R], each 0…C − 1 or kIgnoredLabel.
/// dlogits: [R, C], scale · d(sum of losses)/dz, zeros in rows that do not count; may be logits. The same numbers for
/// any number of threads. Throws Error when shapes do not fit or a label is none of these.
template <typename T>
LossSum CrossEntropy(View<const T> logits, std::span<const int64_t> labels, const LossOptions& options,
                     View<T> dlogits);

/// The same for targets [R, C] of any sum, such as the mixtures of mixup and cutmix.
template <typename T>
LossSum CrossEntropy(View<const T> logits, View<const T> targets, const LossOptions& options, View<T> dlogits);

}  // namespace qkv::train
