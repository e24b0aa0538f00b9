#include "qkv/lab/claims/forms.h"

#include "qkv/algebra/logits.h"
#include "qkv/lab/claims/replay.h"

namespace qkv::lab {

Attended separate_attention(View<const double> x, View<const double> w_q, View<const double> w_k,
                            View<const double> w_v) {
  for (const auto& w : {w_q, w_k, w_v}) {
    Require(x.rank() == 2 && w.rank() == 2 && w.dim(0) == x.dim(1), "attention: expected weights [{}, E], got {}",
            x.rank() == 2 ? x.dim(1) : 0, w.shape());
  }
  Require(w_q.dim(1) == w_k.dim(1), "attention: expected queries and keys of one width, got {} and {}", w_q.dim(1),
          w_k.dim(1));
  Attended result;
  const Tensor<double> k = internal::Multiply(x, w_k);
  result.scores = internal::Multiply(internal::Multiply(x, w_q), algebra::Transpose(k));
  result.weights = algebra::Softmax(result.scores);
  result.outputs = internal::Multiply(result.weights, internal::Multiply(x, w_v));
  return result;
}

Attended unified_attention(View<const double> x, View<const double> w) { return separate_attention(x, w, w, w); }

Attended separate_attention_same_qk(View<const double> x, View<const double> w_qk, View<const double> w_v) {
  return separate_attention(x, w_qk, w_qk, w_v);
}

}  // namespace qkv::lab
