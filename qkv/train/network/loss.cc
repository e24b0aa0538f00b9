#include "qkv/train/network/loss.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "qkv/core/parallel.h"
#include "qkv/simd/rows/elementwise.h"

namespace qkv::train {
namespace {

// At most this many pieces of rows, and at least this many logits per piece, to keep the cost of scheduling small.
constexpr int64_t kMostPieces = 64, kLeastLogits = 16384;

// Σ row(r) over all rows, in an order independent of the number of threads.
template <typename F>
LossSum SumRows(int64_t rows, int64_t classes, F&& row) {
  const int64_t grain = std::max((rows + kMostPieces - 1) / kMostPieces, (kLeastLogits + classes - 1) / classes);
  std::array<LossSum, kMostPieces> sums{};
  ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
    LossSum& sum = sums[static_cast<size_t>(begin / grain)];
    for (int64_t r = begin; r < end; ++r) sum += row(r);
  });
  LossSum total;
  for (const LossSum& sum : sums) total += sum;
  return total;
}

template <typename T>
int64_t Greatest(const T* x, int64_t n) {
  return std::max_element(x, x + n) - x;
}

// Loss of a row whose targets sum to `total`. `apart` is Σ t_c (max z − z_c), a sum without negative terms, so nothing
// cancels: −Σ t_c log softmax(z)_c = total · log Σ e^(z − max z) + apart. Writes the softmax to `p`.
template <typename T>
double RowLoss(const T* z, int64_t classes, int64_t greatest, double total, double apart, T* p) {
  if (p != z) std::copy_n(z, classes, p);
  simd::Softmax(p, classes);
  return apart - total * std::log(static_cast<double>(p[greatest]));
}

template <typename T>
void RequireLogits(View<const T> logits, View<T> dlogits, const LossOptions& options) {
  Require(logits.rank() == 2 && logits.dim(1) > 0 && dlogits.shape() == logits.shape(),
          "cross entropy: expected logits [rows, classes] and a gradient alike, got {} and {}", logits.shape(),
          dlogits.shape());
  Require(logits.stride(1) == 1 && dlogits.stride(1) == 1, "cross entropy: the logits of a row must lie side by side");
  Require(options.smoothing >= 0 && options.smoothing <= 1,
          "cross entropy: expected a label smoothing in [0, 1], got {}", options.smoothing);
}

}  // namespace

template <typename T>
LossSum CrossEntropy(View<const T> logits, std::span<const int64_t> labels, const LossOptions& options,
                     View<T> dlogits) {
  RequireLogits(logits, dlogits, options);
  const int64_t rows = logits.dim(0), classes = logits.dim(1);
  Require(static_cast<int64_t>(labels.size()) == rows, "cross entropy: expected {} labels, got {}", rows,
          labels.size());
  for (const int64_t label : labels) {
    Require((label >= 0 && label < classes) || label == kIgnoredLabel,
            "cross entropy: expected labels from 0 to {} (or {}: ignored), got {}", classes - 1, kIgnoredLabel, label);
  }
  const double share = options.smoothing / static_cast<double>(classes), rest = 1 - options.smoothing;
  return SumRows(rows, classes, [&](int64_t r) -> LossSum {
    const T* z = logits.row(r);
    T* d = dlogits.row(r);
    const int64_t label = labels[static_cast<size_t>(r)];
    if (label == kIgnoredLabel) {
      std::fill_n(d, classes, T{0});
      return {};
    }
    const int64_t greatest = Greatest(z, classes);
    const double max = z[greatest];
    double apart = rest * (max - z[label]);
    if (share > 0) {
      for (int64_t c = 0; c < classes; ++c) apart += share * (max - z[c]);
    }
    const double loss = RowLoss(z, classes, greatest, 1.0, apart, d);
    const T scale = static_cast<T>(options.scale), smooth = static_cast<T>(share);
    for (int64_t c = 0; c < classes; ++c) d[c] = scale * (d[c] - smooth);
    d[label] -= scale * static_cast<T>(rest);
    return {loss, 1, greatest == label};
  });
}

template <typename T>
LossSum CrossEntropy(View<const T> logits, View<const T> targets, const LossOptions& options, View<T> dlogits) {
  RequireLogits(logits, dlogits, options);
  const int64_t rows = logits.dim(0), classes = logits.dim(1);
  Require(targets.shape() == logits.shape() && targets.stride(1) == 1,
          "cross entropy: expected targets {} whose rows are dense, got {}", logits.shape(), targets.shape());
  const double share = options.smoothing / static_cast<double>(classes), rest = 1 - options.smoothing;
  return SumRows(rows, classes, [&](int64_t r) -> LossSum {
    const T* z = logits.row(r);
    const T* soft = targets.row(r);
    T* d = dlogits.row(r);
    const int64_t greatest = Greatest(z, classes);
    const double max = z[greatest];
    double apart = 0, total = 0;
    for (int64_t c = 0; c < classes; ++c) {
      const double t = share + rest * soft[c];
      total += t;
      if (t != 0) apart += t * (max - z[c]);  // avoids 0 · ∞ for logits of −∞
    }
    const double loss = RowLoss(z, classes, greatest, total, apart, d);
    const T scale = static_cast<T>(options.scale);
    for (int64_t c = 0; c < classes; ++c) {
      d[c] = scale * (static_cast<T>(total) * d[c] - static_cast<T>(share + rest * soft[c]));
    }
    return {loss, 1, greatest == Greatest(soft, classes)};
  });
}

#define QKV_INSTANTIATE(T)                                                                             \
  template LossSum CrossEntropy(View<const T>, std::span<const int64_t>, const LossOptions&, View<T>); \
  template LossSum CrossEntropy(View<const T>, View<const T>, const LossOptions&, View<T>);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::train
