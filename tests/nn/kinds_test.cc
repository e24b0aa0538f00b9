// Every kind of attention against its definition, written out naively: all rows and few, with and without weights on
// request, under every instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "qkv/nn/attention.h"
#include "qkv/nn/gaussian_places.h"
#include "tests/nn/layers.h"
#include "tests/support/isas.h"

namespace qkv::nn {
namespace {

using enum AttentionKind;

constexpr int64_t kB = 2, kH = 3, kD = 20, kE = 6;
constexpr int64_t kPrefix = 2, kGridHeight = 3, kGridWidth = 5, kN = kPrefix + kGridHeight * kGridWidth;

struct Case {
  AttentionKind kind;
  int64_t r;
};

// What a kind is made of, all of it, whether the kind uses it or not.
struct Parts {
  explicit Parts(int64_t r) : width(r) {}

  Sampler sampler{11};
  int64_t width;
  NamedLinear query{sampler, kH*width, kD}, key{sampler, kH*width, kD}, value{sampler, kH*kE, kD};
  NamedLinear projection{sampler, kD, kH* kE};
  Tensor<double> merged = sampler.Normal<double>({kH, kD, kD}, 0, 0.1), term = sampler.Normal<double>({kH, kD});
  Tensor<double> eigenvalues = sampler.Normal<double>({kH, width}), bandwidth = Tensor<double>({kH});
  Tensor<double> places = sampler.Normal<double>({2, kH, kN, width});
  Tensor<double> gain = sampler.Normal<double>({kE}, 1, 0.2);  // of the norm of a difference
};

constexpr double kLambda = 0.4;

// The feature e of head h of a projection of x [D].
double Feature(const NamedLinear& layer, const double* x, int64_t h, int64_t width, int64_t e) {
  const int64_t row = h * width + e;
  double sum = layer.bias.empty() ? 0 : layer.bias[row];
  for (int64_t d = 0; d < kD; ++d) sum += layer.weight[row * kD + d] * x[d];
  return sum;
}

double Product(const NamedLinear& a, const double* x, const NamedLinear& b, const double* y, int64_t h, int64_t width,
               const double* factors = nullptr) {
  double sum = 0;
  for (int64_t e = 0; e < width; ++e) {
    sum += Feature(a, x, h, width, e) * (factors ? factors[e] : 1) * Feature(b, y, h, width, e);
  }
  return sum;
}

// Σ_e q_e k_e over a half of a head's features.
double HalfProduct(const Parts& p, const double* x, const double* y, int64_t h, int64_t half) {
  double sum = 0;
  for (int64_t e = half * kE / 2; e < (half + 1) * kE / 2; ++e) {
    sum += Feature(p.query, x, h, kE, e) * Feature(p.key, y, h, kE, e);
  }
  return sum;
}

double SquaredDistance(int64_t i, int64_t j) {
  if (i < kPrefix || j < kPrefix) return 0;
  const auto dy = static_cast<double>((i - kPrefix) / kGridWidth - (j - kPrefix) / kGridWidth);
  const auto dx = static_cast<double>((i - kPrefix) % kGridWidth - (j - kPrefix) % kGridWidth);
  return dy * dy + dx * dx;
}

// The definition of a kind, as its enumerator's comment has it.
double Score(AttentionKind kind, const Parts& p, const double* x, int64_t h, int64_t i, int64_t j) {
  const double s = 1 / std::sqrt(double{kE}), *xi = x + i * kD, *xj = x + j * kD;
  switch (kind) {
    case kShared:
    case kUnified:
      return s * Product(p.key, xi, p.key, xj, h, p.width);
    case kSymmetric:
      return s * Product(p.key, xi, p.key, xj, h, p.width, p.eigenvalues.data() + h * p.width);
    case kMerged: {
      double sum = 0;
      for (int64_t b = 0; b < kD; ++b) {
        sum += p.term[h * kD + b] * xj[b];
        for (int64_t a = 0; a < kD; ++a) sum += xi[a] * p.merged[(h * kD + a) * kD + b] * xj[b];
      }
      return s * sum;
    }
    case kGaussian:
      return -SquaredDistance(i, j) / (2 * p.bandwidth[h] * p.bandwidth[h]);
    case kPositional: {
      double sum = 0;
      for (int64_t e = 0; e < p.width; ++e) sum += *p.places.view().at(0, h, i, e) * *p.places.view().at(1, h, j, e);
      return s * sum;
    }
    default:
      return s * Product(p.query, xi, p.key, xj, h, p.width);
  }
}

template <typename T>
Linear<T> Pack(const std::vector<const NamedLinear*>& parts, const double* factors = nullptr) {
  int64_t rows = 0;
  for (const NamedLinear* part : parts) rows += part->outputs;
  Tensor<T> weight({rows, kD}), bias({rows});
  int64_t row = 0;
  for (const NamedLinear* part : parts) {
    for (int64_t n = 0; n < part->outputs; ++n, ++row) {
      const double factor = factors ? factors[n] : 1;
      bias[row] = static_cast<T>(factor * part->bias[n]);
      for (int64_t d = 0; d < kD; ++d) weight[row * kD + d] = static_cast<T>(factor * part->weight[n * kD + d]);
    }
  }
  return {simd::PackedMatrix<T>(weight), std::move(bias)};
}

// Mᵀ and u as a layer of queries.
NamedLinear MergedQueries(const Parts& p) {
  Sampler ignored(1);
  NamedLinear layer(ignored, kH * kD, kD);
  for (int64_t h = 0; h < kH; ++h) {
    for (int64_t b = 0; b < kD; ++b) {
      layer.bias[h * kD + b] = p.term[h * kD + b];
      for (int64_t a = 0; a < kD; ++a) layer.weight[(h * kD + b) * kD + a] = p.merged[(h * kD + a) * kD + b];
    }
  }
  return layer;
}

template <typename T>
std::vector<Linear<T>> Heads(const NamedLinear& layer, int64_t width, bool transposed) {
  const Tensor<T> weight = Cast<T>(layer.weight);
  std::vector<Linear<T>> heads;
  for (int64_t h = 0; h < kH; ++h) {
    const View<const T> rows = weight.view().slice(0, h * width, (h + 1) * width);
    if (transposed) {
      heads.push_back(
          {simd::PackedMatrix<T>(View<const T>(rows.data(), {rows.dim(1), width}, {1, rows.stride(0)})), {}});
      continue;
    }
    Tensor<T> bias({width});
    for (int64_t e = 0; e < width; ++e) bias[e] = static_cast<T>(layer.bias[h * width + e]);
    heads.push_back({simd::PackedMatrix<T>(rows), std::move(bias)});
  }
  return heads;
}

// With the order for few rows, queries are a product of their own; without it, one product makes them with the keys.
template <typename T>
AttentionLayer<T> Build(const Case& c, const Parts& p, bool absorb) {
  AttentionLayer<T> layer;
  layer.kind = c.kind, layer.heads = kH, layer.head_width = kE, layer.qk_width = c.r == kE ? 0 : c.r;
  layer.projection = p.projection.As<T>();
  const bool keys = c.kind != kMerged && !IsPositional(c.kind), values = !ValuesAreKeys(c.kind);
  const NamedLinear merged = MergedQueries(p);
  if (c.kind == kMerged) layer.query = Pack<T>({&merged});
  const bool together = HasQueriesAndKeys(c.kind) && !absorb;
  if (HasQueriesAndKeys(c.kind) && absorb) layer.query = Pack<T>({&p.query});
  if (keys && QueriesAreKeys(c.kind) && absorb) {
    layer.query = Pack<T>({&p.key}, c.kind == kSymmetric ? p.eigenvalues.data() : nullptr);
  }
  const bool in_one = keys && values && c.r == kE;
  std::vector<const NamedLinear*> parts;
  if (together) parts.push_back(&p.query);
  if (keys) parts.push_back(&p.key);
  if (in_one) parts.push_back(&p.value);
  if (keys) layer.query_key_value = Pack<T>(parts);
  if (values && !in_one) layer.value = Pack<T>({&p.value});
  if (c.kind == kDifferential) {
    layer.lambda = Tensor<T>({1});
    layer.lambda[0] = static_cast<T>(kLambda);
    layer.head_norm.gamma = Cast<T>(p.gain);
    layer.head_norm.kind = kHeadNorm.kind, layer.head_norm.eps = static_cast<T>(kHeadNorm.eps);
    return layer;  // no order absorbs a difference
  }
  if (c.kind == kSymmetric) layer.eigenvalues = Cast<T>(p.eigenvalues);
  if (absorb && keys) layer.absorbed.key = Heads<T>(p.key, c.r, true);
  if (absorb) layer.absorbed.value = Heads<T>(values ? p.value : p.key, kE, false);
  return layer;
}

struct Expected {
  Matrix out, weights;  // [B, N, D], [B, H, N, N]
};

using Row = std::array<double, kN>;

// The weights of query i: a softmax, or the difference of two.
Row NaiveWeights(const Case& c, const Parts& p, const double* tokens, int64_t h, int64_t i) {
  Row weights, second;
  for (int64_t j = 0; j < kN; ++j) {
    const auto at = static_cast<size_t>(j);
    if (c.kind != kDifferential) {
      weights[at] = Score(c.kind, p, tokens, h, i, j);
      continue;
    }
    weights[at] = HalfProduct(p, tokens + i * kD, tokens + j * kD, h, 0) / std::sqrt(kE / 2.0);
    second[at] = HalfProduct(p, tokens + i * kD, tokens + j * kD, h, 1) / std::sqrt(kE / 2.0);
  }
  simd::reference::Softmax(weights.data(), kN);
  if (c.kind != kDifferential) return weights;
  simd::reference::Softmax(second.data(), kN);
  for (size_t j = 0; j < weights.size(); ++j) weights[j] -= kLambda * second[j];
  return weights;
}

// RMSNorm of a head's features.
void NaiveHeadNorm(const Parts& p, double* x) {
  double squares = 0;
  for (int64_t e = 0; e < kE; ++e) squares += x[e] * x[e] / kE;
  for (int64_t e = 0; e < kE; ++e) x[e] *= p.gain[e] / std::sqrt(squares + kHeadNorm.eps);
}

Expected Naive(const Case& c, const Parts& p, const Tensor<double>& x) {
  Expected expected;
  for (int64_t b = 0; b < kB; ++b) {
    const double* tokens = x.view().at(b);
    Matrix joined(static_cast<size_t>(kN * kH * kE));
    for (int64_t h = 0; h < kH; ++h) {
      for (int64_t i = 0; i < kN; ++i) {
        const Row weights = NaiveWeights(c, p, tokens, h, i);
        expected.weights.insert(expected.weights.end(), weights.begin(), weights.end());
        for (int64_t j = 0; j < kN; ++j) {
          for (int64_t e = 0; e < kE; ++e) {
            joined[static_cast<size_t>((i * kH + h) * kE + e)] +=
                weights[static_cast<size_t>(j)] *
                Feature(ValuesAreKeys(c.kind) ? p.key : p.value, tokens + j * kD, h, kE, e);
          }
        }
        if (c.kind == kDifferential) NaiveHeadNorm(p, joined.data() + (i * kH + h) * kE);
      }
    }
    const Matrix out = p.projection(joined);
    expected.out.insert(expected.out.end(), out.begin(), out.end());
  }
  return expected;
}

class Kinds : public IsaTest {
 protected:
  template <typename T>
  void Check(const Case& c) {
    Parts p(c.r);
    for (int64_t h = 0; h < kH; ++h) p.bandwidth[h] = 0.8 + 0.3 * static_cast<double>(h);
    const auto x = p.sampler.Normal<double>({kB, kN, kD});
    const Expected expected = Naive(c, p, x);
    const Tensor<T> x_t = Cast<T>(x);
    Tensor<T> places;
    if (c.kind == kPositional) places = Cast<T>(p.places);
    if (c.kind == kGaussian) {
      places = Tensor<T>({2, kH, kN, kGaussianFeatures});
      GaussianPlaces<T>(Cast<T>(p.bandwidth), kPrefix, kGridHeight, kGridWidth, places);
    }
    Arena arena;
    Tensor<T> out({kB, kN, kD}), weights({kB, kH, kN, kN});
    const WeightsRequest<T> request{.row_begin = 0, .row_end = kN, .out = weights, .visit = {}};
    AttentionContext<T> context{{}, IsPositional(c.kind) ? View<const T>(places) : View<const T>()};
    AttentionForward<T>(x_t, x_t, Build<T>(c, p, false), nullptr, {}, out, arena, context);
    EXPECT_LE(RelativeError<T>(out.view().reshape({kB * kN, kD}), expected.out), LayerTolerance<T>());

    context.requests = std::span(&request, 1);
    AttentionForward<T>(x_t, x_t, Build<T>(c, p, true), nullptr, {}, out, arena, context);
    EXPECT_LE(RelativeError<T>(out.view().reshape({kB * kN, kD}), expected.out), LayerTolerance<T>());
    EXPECT_LE(RelativeError<T>(weights.view().reshape({kB * kH * kN, kN}), expected.weights), LayerTolerance<T>());

    // One row, the first or the last, for which the layer absorbs where it can.
    context.requests = {};
    const Input<T> all(x_t);
    for (const bool last : {false, true}) {
      context.last_rows = last;
      const int64_t at = last ? kN - 1 : 0;
      Matrix expected_one;
      for (int64_t b = 0; b < kB; ++b) {
        const auto row = expected.out.begin() + (b * kN + at) * kD;
        expected_one.insert(expected_one.end(), row, row + kD);
      }
      for (const bool absorbs : {false, true}) {
        Tensor<T> one({kB, 1, kD});
        AttentionForward<T>(all.slice(1, at, at + 1), all, Build<T>(c, p, absorbs), nullptr, {}, one, arena, context);
        EXPECT_LE(RelativeError<T>(one.view().reshape({kB, kD}), expected_one), LayerTolerance<T>());
      }
    }
  }
};
QKV_FOR_ALL_ISAS(Kinds);

constexpr Case kCases[] = {{kSeparate, kE},    {kShared, kE},   {kUnified, kE},   {kSharedKeyValue, kE},
                           {kMerged, kE},      {kLowRank, 2},   {kLowRank, kE},   {kSymmetric, 4},
                           {kSymmetric, 9},    {kGaussian, kE}, {kPositional, 3}, {kPositional, kE},
                           {kDifferential, kE}};

TEST_P(Kinds, AreWhatTheyAreDefinedToBe) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(c.kind) << ", rank " << c.r);
    Check<float>(c);
    Check<double>(c);
  }
}

// Bandwidths far below and above a patch: the nearest keys alone, and all alike.
TEST(GaussianPlaces, AreDistancesAtAnyBandwidth) {
  for (const double h : {0.05, 0.5, 3.0, 1e4}) {
    Tensor<double> bandwidth({kH}), places({2, kH, kN, kGaussianFeatures});
    std::fill_n(bandwidth.data(), kH, h);
    GaussianPlaces<double>(bandwidth, kPrefix, kGridHeight, kGridWidth, places);
    for (int64_t i = 0; i < kN; ++i) {
      for (int64_t j = 0; j < kN; ++j) {
        double score = 0;
        for (int64_t f = 0; f < kGaussianFeatures; ++f) {
          score += *places.view().at(0, 1, i, f) * *places.view().at(1, 1, j, f);
        }
        // Squares of up to half the grid's diagonal cancel.
        const double magnitude = (kGridHeight * kGridHeight + kGridWidth * kGridWidth) / (h * h);
        EXPECT_NEAR(score, -SquaredDistance(i, j) / (2 * h * h), 4 * 2.2e-16 * magnitude);
      }
    }
  }
  Tensor<double> bandwidth({kH}), narrow({2, kH, kN, 3});
  EXPECT_THROW(GaussianPlaces<double>(bandwidth, kPrefix, kGridHeight, kGridWidth, narrow), Error);
}

TEST(KindsOfAttention, RefuseWhatTheyAreNotTold) {
  const Parts p(kE);
  const auto x = Sampler(3).Normal<double>({kB, kN, kD}), other = Sampler(4).Normal<double>({kB, 1, kD});
  Tensor<double> out({kB, kN, kD}), one({kB, 1, kD});
  Arena arena;
  const auto gaussian = Build<double>({kGaussian, kE}, p, false), shared = Build<double>({kShared, kE}, p, false),
             separate = Build<double>({kSeparate, kE}, p, false), apart = Build<double>({kSeparate, kE}, p, true);
  EXPECT_THROW(AttentionForward<double>(x, x, gaussian, nullptr, {}, out, arena), Error);  // no places
  EXPECT_THROW(AttentionForward<double>(x, x, gaussian, nullptr, {}, out, arena,
                                        {{}, Sampler(5).Normal<double>({2, kH, kN - 1, 4})}),
               Error);
  // Queries of other tokens, which only a product of their own can make.
  EXPECT_THROW(AttentionForward<double>(other, x, shared, nullptr, {}, one, arena), Error);
  EXPECT_THROW(AttentionForward<double>(other, x, separate, nullptr, {}, one, arena), Error);
  EXPECT_NO_THROW(AttentionForward<double>(other, x, apart, nullptr, {}, one, arena));
}

}  // namespace
}  // namespace qkv::nn
