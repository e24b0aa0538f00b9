// Runs the plans of attention/plan on random tokens and weights with the inference kernels: weights are packed
// beforehand, and scores that are not read are never stored.
#pragma once

#include <vector>

#include "qkv/attention/plan.h"
#include "qkv/core/arena.h"
#include "qkv/core/tensor.h"
#include "qkv/simd/gemm/gemm.h"

namespace qkv::lab {

/// One workload with all its plans. The weights have no biases, and the softmax's scale is folded into W_Q.
template <typename T>
class Trial {
 public:
  /// Throws Error if a size is missing or negative.
  explicit Trial(const attention::Workload& workload);

  /// Computes the packed weights and merged matrices of the plan. Throws Error if the plan is not possible.
  void Prepare(const attention::Plan& plan);
  /// Runs a prepared plan. Returns the outputs [B, m, D] (without W_O [B, m, H·E_v]), or the scores [B, H, m, N]; valid
  /// until the next call.
  View<const T> Run(const attention::Plan& plan);

 private:
  using Matrix = simd::PackedMatrix<T>;
  using Matrices = std::vector<Matrix>;  // one per head

  // The parameters in which values and keys differ.
  struct Side {
    int64_t width;  // of a head
    const Matrix &weights, &merged;
    const Matrices& carries;
    View<T> cache;
  };

  View<const T> Queries(attention::Order order);                         // [B, H, m, ·]
  View<const T> KeysOrValues(attention::Order order, const Side& side);  // [B, H, N, ·]
  View<const T> Scores(View<const T> q, View<const T> k);
  View<const T> Outputs(attention::Order order, View<const T> sums);

  View<T> ToHeads(View<const T> x, const Matrix& weights, int64_t width);
  void FillLast(View<const T> made, View<T> cache) const;

  attention::Workload w_;
  Tensor<T> x_;                        // tokens of the queries, [B·m, D]
  Tensor<T> source_;                   // source of keys and values, [B, N, D or c]
  Tensor<T> key_cache_, value_cache_;  // [B, H, N, E], [B, H, N, E_v], or empty
  Tensor<T> w_q_, w_k_, w_v_, w_o_;    // [H·E, D], [H·E, D or c], [H·E_v, D or c], [D, H·E_v]
  Matrix latent_, query_, key_, value_, output_;
  Matrix merged_, keys_merged_, output_merged_, values_merged_;
  Matrices query_carries_, key_carries_, sum_carries_, value_carries_;
  Arena arena_;
};

}  // namespace qkv::lab
