// Rotary positions (Su et al. 2021, RoFormer, eq. 15): each pair of a query's and a key's features is turned by an
// angle in proportion to the token's place, so that a score knows how far apart two tokens are, and not where.
#pragma once

#include <cstdint>

#include "qkv/core/tensor.h"

namespace qkv::nn {

/// What turns features 2i and 2i + 1 of the token at place p by p · base^(−2i / E), for places 0 to `length` − 1. The
/// pairs are those of algebra::Rope.
class RotaryTable {
 public:
  static constexpr double kUsualBase = 10'000;

  /// Throws Error unless E is even and the base is positive.
  RotaryTable(int64_t length, int64_t E, double base = kUsualBase);

  int64_t length() const { return exact_.dim(0); }
  int64_t width() const { return exact_.dim(2); }
  /// [length, 2, E]: of each place the cosines, and the sines as simd::TurnPairs takes them.
  template <typename T>
  View<const T> table() const;

 private:
  Tensor<double> exact_;
  Tensor<float> single_;  // the same, rounded once
};

enum class Turn { kForward, kBack };  // kBack is the transpose: of gradients, and what undoes the other

/// The tokens of every sequence stand at places first, first + 1, …
/// x, y: [B·N, H·E], rows strided; N tokens a sequence; y may be x. Throws Error when the shapes do not fit.
template <typename T>
void TurnRows(View<const T> x, int64_t N, const RotaryTable& table, int64_t first, Turn turn, View<T> y);

/// The same of heads: [B, H, N, E], any strides but a dense last axis.
template <typename T>
void TurnHeads(View<const T> x, const RotaryTable& table, int64_t first, View<T> y);

}  // namespace qkv::nn
