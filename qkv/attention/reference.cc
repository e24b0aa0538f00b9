// Naive attention and its gradient in double precision, straight from the definitions: the oracle of the tests.
#include "qkv/simd/rows/reference.h"

#include <cmath>
#include <limits>
#include <vector>

#include "qkv/attention/attention.h"
#include "qkv/core/dropout_hash.h"
#include "qkv/core/rng.h"

namespace qkv::attention {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Element (b, h, i, j) of a broadcast view.
template <typename T>
T* Broadcast(View<T> view, int64_t b, int64_t h, int64_t i, int64_t j) {
  return view.at(view.dim(0) == 1 ? 0 : b, view.dim(1) == 1 ? 0 : h, view.dim(2) == 1 ? 0 : i, j);
}

double Score(View<const double> q, View<const double> k, const Options<double>& options, int64_t b, int64_t h,
             int64_t i, int64_t j) {
  const int64_t E = q.dim(3), N_q = q.dim(2), N_k = k.dim(2), group = q.dim(1) / k.dim(1);
  const int64_t L = options.key_lengths.empty() ? N_k : *options.key_lengths.at(b);
  const int64_t position = options.first_position + (options.causal == Causal::kBottomRight ? i + L - N_q : i);
  if (j >= L || (options.causal != Causal::kNone && j > position)) return -kInfinity;
  if (options.window_left >= 0 && j < position - options.window_left) return -kInfinity;
  if (options.window_right >= 0 && j - position > options.window_right) return -kInfinity;
  if (!options.mask.empty() && !*Broadcast(options.mask, b, h, i, j)) return -kInfinity;
  double score = 0;
  for (int64_t e = 0; e < E; ++e) score += *q.at(b, h, i, e) * *k.at(b, h / group, j, e);
  score *= options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(E));
  if (options.soft_cap != 0) score = options.soft_cap * std::tanh(score / options.soft_cap);
  if (!options.bias.empty()) {
    const double bias = *Broadcast(options.bias, b, h, i, j);
    score = bias == -kInfinity ? bias : score + bias;
  }
  return score;
}

void Clear(View<double> view) {
  if (view.empty()) return;
  for (int64_t b = 0; b < view.dim(0); ++b) {
    for (int64_t h = 0; h < view.dim(1); ++h) {
      for (int64_t i = 0; i < view.dim(2); ++i) {
        for (int64_t j = 0; j < view.dim(3); ++j) *view.at(b, h, i, j) = 0;
      }
    }
  }
}

// The weights of a row's keys and, last, of its sink.
void Weights(View<const double> q, View<const double> k, const Options<double>& options, int64_t b, int64_t h,
             int64_t i, std::vector<double>& row) {
  const int64_t N_k = k.dim(2);
  for (int64_t j = 0; j < N_k; ++j) row[j] = Score(q, k, options, b, h, i, j);
  row[N_k] = options.sinks.empty() ? -kInfinity : *options.sinks.at(h);
  simd::reference::Softmax(row.data(), N_k + 1);
}

// d score / d (scale · q · k), the derivative of the soft cap.
double CapSlope(View<const double> q, View<const double> k, const Options<double>& options, int64_t b, int64_t h,
                int64_t i, int64_t j) {
  if (options.soft_cap == 0) return 1;
  Options<double> plain;
  plain.scale = options.scale;
  const double tanh = std::tanh(Score(q, k, plain, b, h, i, j) / options.soft_cap);
  return 1 - tanh * tanh;
}

// The factor that dropout applies to a weight.
double DropoutFactor(const Options<double>& options, int64_t heads, int64_t b, int64_t h, int64_t i, int64_t j) {
  if (options.dropout == 0) return 1;
  const uint64_t head = MixSeed(options.seed, static_cast<uint64_t>((options.first_batch + b) * heads + h));
  const uint32_t bits = DropoutHash::Of(MixSeed(head, static_cast<uint64_t>(i)), static_cast<uint32_t>(j));
  return static_cast<int32_t>(bits) < DropoutThreshold(options.dropout) ? 0 : 1 / (1 - options.dropout);
}

}  // namespace

void ReferenceAttention(View<const double> q, View<const double> k, View<const double> v,
                        const Options<double>& options, View<double> out, View<double> weights) {
  const int64_t N_k = k.dim(2), group = q.dim(1) / k.dim(1);
  std::vector<double> row(static_cast<size_t>(N_k + 1));
  for (int64_t b = 0; b < q.dim(0); ++b) {
    for (int64_t h = 0; h < q.dim(1); ++h) {
      for (int64_t i = 0; i < q.dim(2); ++i) {
        Weights(q, k, options, b, h, i, row);
        for (int64_t e = 0; e < out.dim(3); ++e) {
          double sum = 0;
          for (int64_t j = 0; j < N_k; ++j) {
            sum += row[j] * DropoutFactor(options, q.dim(1), b, h, i, j) * *v.at(b, h / group, j, e);
          }
          *out.at(b, h, i, e) = sum;
        }
        for (int64_t j = 0; j < N_k && !weights.empty(); ++j) *weights.at(b, h, i, j) = row[j];
      }
    }
  }
}

void ReferenceAttentionBackward(const BackwardTensors<double>& x, const Options<double>& options) {
  const int64_t H = x.q.dim(1), N_k = x.k.dim(2), E = x.q.dim(3), E_v = x.v.dim(3), group = H / x.k.dim(1);
  const double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(E));
  Clear(x.dq), Clear(x.dk), Clear(x.dv), Clear(x.dbias);
  for (int64_t h = 0; h < H && !x.dsinks.empty(); ++h) *x.dsinks.at(h) = 0;
  std::vector<double> weights(static_cast<size_t>(N_k + 1)), dweights(static_cast<size_t>(N_k));
  for (int64_t b = 0; b < x.q.dim(0); ++b) {
    for (int64_t h = 0; h < H; ++h) {
      for (int64_t i = 0; i < x.q.dim(2); ++i) {
        Weights(x.q, x.k, options, b, h, i, weights);
        double mean = 0;
        for (int64_t j = 0; j < N_k; ++j) {
          const double kept = DropoutFactor(options, H, b, h, i, j);
          dweights[j] = 0;
          for (int64_t e = 0; e < E_v; ++e) {
            dweights[j] += kept * *x.dout.at(b, h, i, e) * *x.v.at(b, h / group, j, e);
            *x.dv.at(b, h / group, j, e) += weights[j] * kept * *x.dout.at(b, h, i, e);
          }
          mean += weights[j] * dweights[j];
        }
        if (!x.dsinks.empty()) *x.dsinks.at(h) -= weights[N_k] * mean;
        for (int64_t j = 0; j < N_k; ++j) {
          const double dscore = weights[j] * (dweights[j] - mean);
          if (!x.dbias.empty()) *Broadcast(x.dbias, b, h, i, j) += dscore;
          const double dproduct = dscore * scale * CapSlope(x.q, x.k, options, b, h, i, j);
          for (int64_t e = 0; e < E; ++e) {
            *x.dq.at(b, h, i, e) += dproduct * *x.k.at(b, h / group, j, e);
            *x.dk.at(b, h / group, j, e) += dproduct * *x.q.at(b, h, i, e);
          }
        }
      }
    }
  }
}

}  // namespace qkv::attention
