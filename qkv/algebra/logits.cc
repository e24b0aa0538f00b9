#include "qkv/algebra/logits.h"

#include <cmath>

#include "qkv/algebra/eigen-inl.h"

namespace qkv::algebra {

using namespace internal;

namespace {

template <typename T>
void RequireTokens(const char* side, View<const T> tokens, int64_t features) {
  Require(tokens.rank() == 2 && tokens.size() > 0 && tokens.dim(1) == features,
          "logits: expected {} of {} features, got {}", side, features, tokens.shape());
}

template <typename T>
Matrix<T> Scores(const QueryKeyView<T>& pair, View<const T> queries, View<const T> keys, T scale) {
  RequirePair("logits", pair);
  RequireTokens("queries", queries, pair.query.weight.dim(1));
  RequireTokens("keys", keys, pair.key.weight.dim(1));
  const Tensor<T> q = Apply(pair.query, queries), k = Apply(pair.key, keys);
  return scale * (AsEigen(q.view()) * AsEigen(k.view()).transpose());
}

template <typename T>
Matrix<T> RowSoftmax(Matrix<T> m) {
  m.colwise() -= m.rowwise().maxCoeff().eval();
  m = m.array().exp();
  m.array().colwise() /= m.rowwise().sum().array().eval();
  return m;
}

// ‖q_i‖ from its quadratic form.
template <typename T>
Vector<T> Norms(const Merged<T>& square, View<const T> tokens) {
  const auto X = AsEigen(tokens);
  Vector<T> squares = (X * AsEigen(square.matrix.view())).cwiseProduct(X).rowwise().sum();
  if (!square.key_term.empty()) squares += T(2) * (X * AsVector(square.key_term.view()));
  return (squares.array() + square.constant).max(T(0)).sqrt();
}

}  // namespace

template <typename T>
Tensor<T> Logits(const QueryKeyView<T>& pair, View<const T> queries, View<const T> keys, T scale) {
  return ToTensor(Scores(pair, queries, keys, scale));
}

template <typename T>
Tensor<T> Logits(const Merged<T>& merged, View<const T> queries, View<const T> keys, T scale) {
  RequireMatrix<T>("logits", "M", merged.matrix);
  RequireTokens("queries", queries, merged.matrix.dim(0));
  RequireTokens("keys", keys, merged.matrix.dim(1));
  Matrix<T> S = (AsEigen(queries) * AsEigen(merged.matrix.view())) * AsEigen(keys).transpose();
  if (!merged.key_term.empty()) S.rowwise() += (AsEigen(keys) * AsVector(merged.key_term.view())).transpose().eval();
  if (!merged.query_term.empty()) S.colwise() += (AsEigen(queries) * AsVector(merged.query_term.view())).eval();
  return ToTensor(scale * (S.array() + merged.constant).matrix());
}

template <typename T>
Tensor<T> Logits(const MergedCosine<T>& merged, View<const T> queries, View<const T> keys, T scale) {
  const Tensor<T> numerator = Logits(merged.numerator, queries, keys, scale);
  const Vector<T> q = Norms(merged.query_norm, queries), k = Norms(merged.key_norm, keys);
  return ToTensor(q.cwiseInverse().asDiagonal() * AsEigen(numerator.view()) * k.cwiseInverse().asDiagonal());
}

template <typename T>
Tensor<T> Softmax(View<const T> logits) {
  RequireMatrix("softmax", "the logits", logits);
  return ToTensor(RowSoftmax<T>(AsEigen(logits)));
}

template <typename T>
AttentionError Compare(const QueryKeyView<T>& original, const QueryKeyView<T>& rewritten, View<const T> queries,
                       View<const T> keys, T scale, Terms terms) {
  Matrix<T> S = Scores(original, queries, keys, scale), R = Scores(rewritten, queries, keys, scale);
  if (terms == Terms::kSoftmax) {
    S.colwise() -= S.rowwise().mean().eval();
    R.colwise() -= R.rowwise().mean().eval();
  }
  AttentionError error;
  error.logits = (S - R).norm();
  error.logits_relative = S.norm() > 0 ? error.logits / S.norm() : error.logits > 0 ? INFINITY : 0;
  error.logits_max = (S - R).cwiseAbs().maxCoeff();
  const Matrix<T> difference = (RowSoftmax(S) - RowSoftmax(R)).cwiseAbs();
  error.attention_max = difference.maxCoeff();
  error.attention_mean = difference.sum() / 2 / static_cast<double>(S.rows());
  return error;
}

template <typename T>
double KeyBiasShare(const QueryKeyView<T>& pair, View<const T> queries, View<const T> keys) {
  if (pair.key.bias.empty()) return 0;
  const Matrix<T> S = Scores(pair, queries, keys, T(1));
  const Tensor<T> q = Apply(pair.query, queries);
  const Vector<T> constants = AsEigen(q.view()) * AsVector(pair.key.bias);  // of each row
  return S.norm() > 0 ? constants.norm() * std::sqrt(static_cast<double>(S.cols())) / S.norm() : 0;
}

template <typename T>
Tensor<T> KeyBiasGradient(const QueryKeyView<T>& pair, View<const T> queries, View<const T> keys, T scale,
                          View<const T> attention_gradient) {
  const Matrix<T> A = RowSoftmax(Scores(pair, queries, keys, scale));
  Require(attention_gradient.shape() == Shape({A.rows(), A.cols()}),
          "key bias gradient: expected a gradient of [{}, {}], got {}", A.rows(), A.cols(), attention_gradient.shape());
  // ∂S = A ∘ (∂A − rowsum(A ∘ ∂A)), whose rows sum to zero.
  Matrix<T> G = AsEigen(attention_gradient);
  G.colwise() -= A.cwiseProduct(G).rowwise().sum().eval();
  G = G.cwiseProduct(A);
  const Tensor<T> q = Apply(pair.query, queries);
  return ToTensor<T>(scale * (AsEigen(q.view()).transpose() * G.rowwise().sum()));
}

#define QKV_INSTANTIATE(T)                                                                                         \
  template Tensor<T> Logits(const QueryKeyView<T>&, View<const T>, View<const T>, T);                              \
  template Tensor<T> Logits(const Merged<T>&, View<const T>, View<const T>, T);                                    \
  template Tensor<T> Logits(const MergedCosine<T>&, View<const T>, View<const T>, T);                              \
  template Tensor<T> Softmax(View<const T>);                                                                       \
  template AttentionError Compare(const QueryKeyView<T>&, const QueryKeyView<T>&, View<const T>, View<const T>, T, \
                                  Terms);                                                                          \
  template double KeyBiasShare(const QueryKeyView<T>&, View<const T>, View<const T>);                              \
  template Tensor<T> KeyBiasGradient(const QueryKeyView<T>&, View<const T>, View<const T>, T, View<const T>);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::algebra
