// Softmax cross entropy over rows of logits (images, or tokens of sequences), and its gradient.
#pragma once

#include <cstdint>
#include <span>

#include "qkv/core/tensor.h"

namespace qkv::train {

/// Label of a row that is ignored, as in PyTorch.
inline constexpr int64_t kIgnoredLabel = -100;

/// Sums over rows, so that chunks and processes can be added; the mean is loss / rows.
struct LossSum {
  double loss = 0;
  int64_t rows = 0;     // not ignored
  int64_t correct = 0;  // argmax of the logits is the label; with soft targets: is the argmax of the target

  LossSum& operator+=(const LossSum& other) {
    loss += other.loss, rows += other.rows, correct += other.correct;
    return *this;
  }
};

struct LossOptions {
  double smoothing = 0;  // ε: targets become (1 − ε) target + ε / C (Szegedy et al. 2016)
  double scale = 1;      // of the gradient; 1 / (rows of the whole batch) gives the mean's
};

/// Loss of a row: −Σ_c t_c log softmax(z)_c. logits z: [R, C]; labels: [R], each 0…C − 1 or kIgnoredLabel. dlogits: [R,
/// C], scale · d(sum of losses)/dz, zero in ignored rows; may alias logits. The result does not depend on the number of
/// threads. Throws Error if shapes do not fit or a label is invalid.
template <typename T>
LossSum CrossEntropy(View<const T> logits, std::span<const int64_t> labels, const LossOptions& options,
                     View<T> dlogits);

/// The same with soft targets [R, C], whose rows may have any sum, such as those of mixup and cutmix.
template <typename T>
LossSum CrossEntropy(View<const T> logits, View<const T> targets, const LossOptions& options, View<T> dlogits);

}  // namespace qkv::train
