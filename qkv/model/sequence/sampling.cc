#include "qkv/model/sequence/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "qkv/core/error.h"

namespace qkv::model {

namespace {

template <typename T>
struct Extremes {
  T greatest;
  bool strange;  // one is NaN or +infinity
};

template <typename T>
Extremes<T> FindExtremes(std::span<const T> logits) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  constexpr size_t kLanes = 8;  // compilers vectorise these
  T greatest[kLanes];
  int strange[kLanes] = {};
  std::fill_n(greatest, kLanes, -kInfinity);
  const auto take = [&](size_t lane, T x) {
    greatest[lane] = x > greatest[lane] ? x : greatest[lane];
    strange[lane] |= x < kInfinity ? 0 : 1;
  };
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) take(lane, logits[i + lane]);
  }
  for (; i < logits.size(); ++i) take(0, logits[i]);
  return {*std::max_element(greatest, greatest + kLanes),
          std::any_of(strange, strange + kLanes, [](int one) { return one != 0; })};
}

}  // namespace

void SamplingSettings::Validate() const {
  Require(temperature >= 0 && std::isfinite(temperature), "sampling: expected a temperature of 0 or more, got {}",
          temperature);
  Require(top_k >= 0, "sampling: expected top-k of 0 or more, got {}", top_k);
  Require(top_p > 0 && top_p <= 1, "sampling: expected top-p above 0, and 1 at most, got {}", top_p);
  Require(min_p >= 0 && min_p <= 1, "sampling: expected min-p of 0 to 1, got {}", min_p);
}

TokenSampler::TokenSampler(const SamplingSettings& settings) : settings_(settings), rng_(settings.seed) {
  settings.Validate();
}

template <typename T>
int32_t TokenSampler::Draw(std::span<const T> logits) {
  Require(!logits.empty(), "sampling: there are no logits");
  const Extremes<T> extremes = FindExtremes(logits);
  Require(!extremes.strange, "sampling: a logit is NaN or infinity");
  Require(extremes.greatest > -std::numeric_limits<T>::infinity(), "sampling: every token is excluded");
  if (settings_.temperature == 0) {
    return static_cast<int32_t>(std::find(logits.begin(), logits.end(), extremes.greatest) - logits.begin());
  }
  // Descending probability, ties by index, so that the result does not depend on the library's sort.
  order_.resize(logits.size());
  std::iota(order_.begin(), order_.end(), 0);
  const auto before = [&](int32_t a, int32_t b) {
    const T x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const bool all = settings_.top_k == 0 || settings_.top_k >= static_cast<int64_t>(logits.size());
  const auto kept = all ? order_.end() : order_.begin() + settings_.top_k;
  std::partial_sort(order_.begin(), kept, order_.end(), before);
  order_.erase(kept, order_.end());

  weights_.resize(order_.size());
  const auto greatest = static_cast<double>(logits[static_cast<size_t>(order_.front())]);
  std::transform(order_.begin(), order_.end(), weights_.begin(), [&](int32_t token) {
    return std::exp((static_cast<double>(logits[static_cast<size_t>(token)]) - greatest) / settings_.temperature);
  });
  double sum = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  if (settings_.top_p < 1) {
    const double wanted = settings_.top_p * sum;
    size_t tokens = 0;
    for (sum = 0; tokens < weights_.size() && sum < wanted; ++tokens) sum += weights_[tokens];
    weights_.resize(tokens);
  }
  if (settings_.min_p > 0) {
    while (weights_.back() < settings_.min_p * weights_.front()) {
      sum -= weights_.back();
      weights_.pop_back();
    }
  }
  double rest = rng_.Uniform() * sum;
  size_t drawn = 0;
  while (drawn + 1 < weights_.size() && rest >= weights_[drawn]) rest -= weights_[drawn++];
  return order_[drawn];
}

template int32_t TokenSampler::Draw(std::span<const float>);
template int32_t TokenSampler::Draw(std::span<const double>);

}  // namespace qkv::model
