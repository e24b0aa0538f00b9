#include "qkv/nn/cross_weights.h"

#include <algorithm>
#include <cmath>

#include "qkv/core/error.h"
#include "qkv/core/parallel.h"
#include "qkv/nn/weights_request.h"

namespace qkv::nn {
namespace {

constexpr double kLeastTemperature = 1e-6, kMostTemperature = 1e6, kGreatestSlope = 1e6;
// Squares of bandwidths, and of distances divided by these, stay within a double.
constexpr double kNarrowest = 1e-100, kWidest = 1e100;

// A row of n weights, whose source ends after `length` of them. Ties go to the first.
template <typename T>
void HardRow(T* row, int64_t length, int64_t n) {
  const int64_t greatest = std::max_element(row, row + length) - row;
  std::fill_n(row, n, T(0));
  row[greatest] = T(1);
}

template <typename T>
void UniformRow(T* row, int64_t length, int64_t n) {
  std::fill_n(row, n, T(0));
  std::fill_n(row, length, T(1) / static_cast<T>(length));
}

template <typename T>
void GaussianRow(double centre, double h, T* row, int64_t length, int64_t n) {
  std::fill_n(row, n, T(0));
  // Relative to the nearest token, so that not all are 0 where the centre lies far outside.
  const double nearest = std::clamp(std::round(centre), 0.0, static_cast<double>(length - 1));
  const auto exponent = [&](double j) { return -(j - centre) * (j - centre) / (2 * h * h); };
  const double greatest = exponent(nearest);
  double sum = 0;
  for (int64_t j = 0; j < length; ++j) sum += std::exp(exponent(static_cast<double>(j)) - greatest);
  for (int64_t j = 0; j < length; ++j) {
    row[j] = static_cast<T>(std::exp(exponent(static_cast<double>(j)) - greatest) / sum);
  }
}

}  // namespace

bool CrossWeights::Replaces(int64_t block) const {
  if (rule == CrossRule::kSoftmax && temperature == 1) return false;
  return heads.empty() || std::ranges::find(heads, block, &std::pair<int64_t, int64_t>::first) != heads.end();
}

bool CrossWeights::Replaces(int64_t block, int64_t head) const {
  if (!Replaces(block)) return false;
  return heads.empty() || std::ranges::find(heads, std::pair(block, head)) != heads.end();
}

void CrossWeights::Validate(int64_t depth, int64_t count) const {
  Require(temperature >= kLeastTemperature && temperature <= kMostTemperature,
          "cross-attention: a temperature of {}, expected {} to {}; a look-up without any softness is the rule hard",
          temperature, kLeastTemperature, kMostTemperature);
  Require(bandwidth >= kNarrowest && bandwidth <= kWidest,
          "cross-attention: a bandwidth of {} tokens, expected {} to {}", bandwidth, kNarrowest, kWidest);
  Require(!slope || (*slope >= 0 && *slope <= kGreatestSlope),
          "cross-attention: {} source tokens per target token, expected 0 to {}", slope.value_or(0), kGreatestSlope);
  for (const auto& [block, head] : heads) {
    Require(block >= 0 && block < depth && head >= 0 && head < count,
            "cross-attention: no head {}.{}; the decoder has blocks 0 to {} with heads 0 to {}", block, head, depth - 1,
            count - 1);
  }
}

template <typename T>
void ComputeCrossWeights(const CrossWeights& rule, int64_t block, View<const T> query, View<const T> key,
                         const attention::Options<T>& options, View<const int64_t> lengths,
                         View<const int64_t> positions, View<T> weights) {
  const int64_t H = weights.dim(1), Nq = weights.dim(2), N = weights.dim(3);
  attention::Options<T> own = options;
  own.key_lengths = lengths;
  // Heads of one temperature together.
  const bool softmax = rule.rule == CrossRule::kSoftmax;
  const auto scale = [&](int64_t head) {
    return softmax && rule.Replaces(block, head) ? options.scale / static_cast<T>(rule.temperature) : options.scale;
  };
  for (int64_t head = 0, next = 0; head < H; head = next) {
    for (next = head + 1; next < H && scale(next) == scale(head);) ++next;
    own.scale = scale(head);
    WeightsOfHeads<T>(query, key, own, head, next, 0, Nq, weights.slice(1, head, next));
  }
  if (softmax) return;
  const double slope = rule.slope.value_or(1);
  ParallelFor(weights.dim(0) * H, 1, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const int64_t b = at / H, head = at % H, length = lengths.data()[b];
      if (!rule.Replaces(block, head)) continue;
      for (int64_t i = 0; i < Nq; ++i) {
        T* const row = weights.at(b, head, i);
        if (rule.rule == CrossRule::kHard) {
          HardRow(row, length, N);
        } else if (rule.rule == CrossRule::kUniform) {
          UniformRow(row, length, N);
        } else {
          GaussianRow(slope * static_cast<double>(*positions.at(b, i)), rule.bandwidth, row, length, N);
        }
      }
    }
  });
}

#define QKV_INSTANTIATE(T)                                                                      \
  template void ComputeCrossWeights(const CrossWeights&, int64_t, View<const T>, View<const T>, \
                                    const attention::Options<T>&, View<const int64_t>, View<const int64_t>, View<T>);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::nn
