#include "qkv/algebra/shared.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace qkv::algebra {

namespace {

int64_t Tokens(const char* operation, View<const double> logits) {
  Require(logits.rank() == 2 && logits.dim(0) == logits.dim(1) && logits.dim(0) >= 2,
          "{}: expected square logits of two tokens at least, got {}", operation, logits.shape());
  return logits.dim(0);
}

}  // namespace

double PairExcess(View<const double> logits) {
  const int64_t N = Tokens("pair excess", logits);
  const auto S = [&](int64_t i, int64_t j) { return *logits.at(i, j); };
  double excess = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < N; ++i) {
    for (int64_t j = 0; j < i; ++j) excess = std::max(excess, S(i, j) + S(j, i) - S(i, i) - S(j, j));
  }
  return excess;
}

double CycleExcess(View<const double> logits, std::span<const int64_t> next) {
  const int64_t N = Tokens("cycle excess", logits);
  std::vector<bool> reached(static_cast<size_t>(N));
  Require(std::ssize(next) == N, "cycle excess: expected a permutation of {} tokens, got {}", N, next.size());
  double excess = 0;
  for (int64_t i = 0; i < N; ++i) {
    const int64_t j = next[static_cast<size_t>(i)];
    Require(j >= 0 && j < N && !reached[static_cast<size_t>(j)], "cycle excess: {} at {} makes no permutation", j, i);
    reached[static_cast<size_t>(j)] = true;
    excess += *logits.at(i, j) - *logits.at(i, i);
  }
  return excess;
}

double BalanceError(View<const double> logits) {
  const int64_t N = Tokens("balance error", logits);
  const auto skew = [&](int64_t i, int64_t j) { return *logits.at(i, j) - *logits.at(j, i); };
  double error = 0;
  for (int64_t j = 1; j < N; ++j) {
    for (int64_t k = 1; k < j; ++k) error = std::max(error, std::abs(skew(0, j) + skew(j, k) + skew(k, 0)));
  }
  return error;
}

}  // namespace qkv::algebra
