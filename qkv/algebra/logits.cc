#include "qkv/algebra/logits.h"

#include <cmath>

#include "qkv/algebra/eigen.h"

namespace qkv::algebra {

using namespace internal;

namespace {

void RequireTokens(const char* side, View<const double> tokens, int64_t features) {
  Require(tokens.rank() == 2 && tokens.size() > 0 && tokens.dim(1) == features,
          "logits: expected {} of {} features, got {}", side, features, tokens.shape());
}

Matrix Scores(const QueryKeyView& pair, View<const double> queries, View<const double> keys, double scale) {
  RequirePair("logits", pair);
  RequireTokens("queries", queries, pair.query.weight.dim(1));
  RequireTokens("keys", keys, pair.key.weight.dim(1));
  const Tensor<double> q = Apply(pair.query, queries), k = Apply(pair.key, keys);
  return scale * (AsEigen(q.view()) * AsEigen(k.view()).transpose());
}

Matrix RowSoftmax(Matrix m) {
  m.colwise() -= m.rowwise().maxCoeff().eval();
  m = m.array().exp();
  m.array().colwise() /= m.rowwise().sum().array().eval();
  return m;
}

// ‖q_i‖ from its quadratic form.
Vector Norms(const Merged& square, View<const double> tokens) {
  const auto X = AsEigen(tokens);
  Vector squares = (X * AsEigen(square.matrix.view())).cwiseProduct(X).rowwise().sum();
  if (!square.key_term.empty()) squares += 2.0 * (X * AsVector(square.key_term.view()));
  return (squares.array() + square.constant).max(0.0).sqrt();
}

}  // namespace

Tensor<double> Logits(const QueryKeyView& pair, View<const double> queries, View<const double> keys, double scale) {
  return ToTensor(Scores(pair, queries, keys, scale));
}

Tensor<double> Logits(const Merged& merged, View<const double> queries, View<const double> keys, double scale) {
  RequireMatrix("logits", "M", merged.matrix);
  RequireTokens("queries", queries, merged.matrix.dim(0));
  RequireTokens("keys", keys, merged.matrix.dim(1));
  Matrix S = (AsEigen(queries) * AsEigen(merged.matrix.view())) * AsEigen(keys).transpose();
  if (!merged.key_term.empty()) S.rowwise() += (AsEigen(keys) * AsVector(merged.key_term.view())).transpose().eval();
  if (!merged.query_term.empty()) S.colwise() += (AsEigen(queries) * AsVector(merged.query_term.view())).eval();
  return ToTensor(scale * (S.array() + merged.constant).matrix());
}

Tensor<double> Logits(const MergedCosine& merged, View<const double> queries, View<const double> keys, double scale) {
  const Tensor<double> numerator = Logits(merged.numerator, queries, keys, scale);
  const Vector q = Norms(merged.query_norm, queries), k = Norms(merged.key_norm, keys);
  return ToTensor(q.cwiseInverse().asDiagonal() * AsEigen(numerator.view()) * k.cwiseInverse().asDiagonal());
}

Tensor<double> Softmax(View<const double> logits) {
  RequireMatrix("softmax", "the logits", logits);
  return ToTensor(RowSoftmax(AsEigen(logits)));
}

AttentionError Compare(const QueryKeyView& original, const QueryKeyView& rewritten, View<const double> queries,
                       View<const double> keys, double scale, Terms terms) {
  Matrix S = Scores(original, queries, keys, scale), R = Scores(rewritten, queries, keys, scale);
  if (terms == Terms::kSoftmax) {
    S.colwise() -= S.rowwise().mean().eval();
    R.colwise() -= R.rowwise().mean().eval();
  }
  AttentionError error;
  error.logits = (S - R).norm();
  error.logits_relative = S.norm() > 0 ? error.logits / S.norm() : error.logits > 0 ? INFINITY : 0;
  error.logits_max = (S - R).cwiseAbs().maxCoeff();
  const Matrix difference = (RowSoftmax(S) - RowSoftmax(R)).cwiseAbs();
  error.attention_max = difference.maxCoeff();
  error.attention_mean = difference.sum() / 2 / static_cast<double>(S.rows());
  return error;
}

double KeyBiasShare(const QueryKeyView& pair, View<const double> queries, View<const double> keys) {
  if (pair.key.bias.empty()) return 0;
  const Matrix S = Scores(pair, queries, keys, 1.0);
  const Tensor<double> q = Apply(pair.query, queries);
  const Vector constants = AsEigen(q.view()) * AsVector(pair.key.bias);  // of each row
  return S.norm() > 0 ? constants.norm() * std::sqrt(static_cast<double>(S.cols())) / S.norm() : 0;
}

Tensor<double> KeyBiasGradient(const QueryKeyView& pair, View<const double> queries, View<const double> keys,
                               double scale, View<const double> attention_gradient) {
  const Matrix A = RowSoftmax(Scores(pair, queries, keys, scale));
  Require(attention_gradient.shape() == Shape({A.rows(), A.cols()}),
          "key bias gradient: expected a gradient of [{}, {}], got {}", A.rows(), A.cols(), attention_gradient.shape());
  // ∂S = A ∘ (∂A − rowsum(A ∘ ∂A)), whose rows sum to zero.
  Matrix G = AsEigen(attention_gradient);
  G.colwise() -= A.cwiseProduct(G).rowwise().sum().eval();
  G = G.cwiseProduct(A);
  const Tensor<double> q = Apply(pair.query, queries);
  return VectorToTensor(scale * (AsEigen(q.view()).transpose() * G.rowwise().sum()));
}

}  // namespace qkv::algebra
