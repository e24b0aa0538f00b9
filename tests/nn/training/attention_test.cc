// The attention layer in training: every kind and option against differences of the loss, images alone and together,
// and any number of threads.
#include "qkv/nn/training/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "qkv/core/parallel.h"
#include "tests/support/gradients.h"
#include "tests/support/sampler.h"
#include "tests/support/threads.h"

namespace qkv::nn {
namespace {

using enum AttentionKind;

constexpr int64_t kB = 3, kPrefix = 2, kGridHeight = 2, kGridWidth = 3, kN = kPrefix + kGridHeight * kGridWidth;
constexpr int64_t kD = 8, kH = 2, kE = 4, kRank = 2;

enum class Option {
  kPlain,
  kNoBias,
  kHeadNorms,
  kOutputNorm,
  kNoProjection,
  kDropout,
  kCausal,
  kMask,
  kResidual,
  kRotary
};
constexpr const char* kOptionNames[] = {"Plain",   "NoBias", "HeadNorms", "OutputNorm", "NoProjection",
                                        "Dropout", "Causal", "Mask",      "Residual",   "Rotary"};
constexpr int kOptions = 10;
constexpr const char* kKindNames[] = {"Separate", "Shared",    "Unified",  "SharedKeyValue", "Merged",
                                      "LowRank",  "Symmetric", "Gaussian", "Positional"};

struct Case {
  AttentionKind kind;
  int64_t rows;
  Option option;

  // Two normalised features are a sign: differences of it are no gradient.
  int64_t rank() const {
    const bool narrow = kind == kLowRank || kind == kSymmetric || kind == kPositional;
    return !narrow ? kE : option == Option::kHeadNorms ? kE + 1 : kRank;
  }
};

// Weights or gradients of a case, one after the other in a buffer.
template <typename T>
struct Bound {
  Bound(const Case& c, T* buffer) : begin(buffer), next(buffer) {
    const bool bias = c.option != Option::kNoBias;
    const int64_t r = c.rank();
    if (c.kind == kSeparate) p.query_key_value = Linear(3 * kH * kE, kD, bias);
    if (c.kind == kSharedKeyValue || c.kind == kLowRank) p.query = Linear(kH * r, kD, bias);
    const bool no_keys = c.kind == kSeparate || c.kind == kMerged || IsPositional(c.kind);
    if (!no_keys) p.key = Linear(kH * r, kD, bias && c.kind != kSymmetric);
    if (c.kind != kSeparate && !ValuesAreKeys(c.kind)) p.value = Linear(kH * kE, kD, bias);
    if (c.kind == kMerged) p.merged = Take({kH, kD, kD});
    if (c.kind == kMerged && bias) p.key_term = Take({kH, kD});
    if (c.kind == kSymmetric) p.eigenvalues = Take({kH, r});
    if (c.kind == kGaussian) p.bandwidth = Take({kH});
    if (c.kind == kPositional) p.query_places = Take({kH, kN, r}), p.key_places = Take({kH, kN, r});
    if (c.option == Option::kHeadNorms) p.query_norm = Norm(r), p.key_norm = Norm(r);
    if (c.option == Option::kOutputNorm) p.output_norm = Norm(kH * kE);
    if (c.option != Option::kNoProjection) p.projection = Linear(kD, kH * kE, bias);
  }

  View<T> Take(const Shape& shape) {
    const View<T> view(next, shape);
    next += shape.size();
    return view;
  }
  LinearParameters<T> Linear(int64_t outputs, int64_t inputs, bool bias) {
    const View<T> weight = Take({outputs, inputs});
    return {weight, bias ? Take({outputs}) : View<T>()};
  }
  NormParameters<T> Norm(int64_t width) {
    const View<T> gamma = Take({width});
    return {gamma, Take({width})};
  }
  int64_t size() const { return next - begin; }

  AttentionParameters<T> p;
  T *begin, *next;
};

AttentionSettings MakeSettings(const Case& c, View<const bool> mask) {
  static const RotaryTable narrow(kN, kRank, 10), wide(kN, kE, 10);
  AttentionSettings s;
  s.config.kind = c.kind, s.config.heads = kH, s.config.head_width = kE, s.config.qk_width = c.rank();
  s.grid = {kPrefix, kGridHeight, kGridWidth};
  s.causal = c.option == Option::kCausal;
  s.seed = 5;
  if (c.option == Option::kDropout) s.dropout = 0.4;
  if (c.option == Option::kMask) s.mask = mask;
  if (c.option == Option::kRotary) s.rotary = c.rank() == kE ? &wide : &narrow;
  return s;
}

// The layer of a case with everything that goes in and comes out.
template <typename T>
struct Layer {
  explicit Layer(const Case& of) : c(of) {
    Sampler sampler(7);
    for (int64_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(sampler.rng().Normal());
    for (T& w : weights.span()) w = static_cast<T>(0.6 * sampler.rng().Normal());
    const Bound<T> bound(c, weights.data());
    for (int64_t h = 0; h < bound.p.bandwidth.size(); ++h)
      bound.p.bandwidth.data()[h] = static_cast<T>(0.8 + 0.3 * static_cast<double>(h));
    for (T& v : dy.span()) v = static_cast<T>(sampler.rng().Normal());
    for (T& v : residual.span()) v = static_cast<T>(sampler.rng().Normal());
    for (int64_t b = 0; b < kB; ++b) {  // of keys: each image has lost another
      for (int64_t j = 0; j < kN; ++j) *mask.view().at(b, 0, 0, j) = j != b + 1;
    }
  }

  void Forward() {
    const Bound<const T> p(c, weights.data());
    arena.Reset();
    AttentionForward<T>(x, c.rows, p.p, MakeSettings(c, mask),
                        c.option == Option::kResidual ? residual.view() : View<T>(), y, cache, arena);
  }
  T Loss() {
    Forward();
    T sum = 0;
    for (int64_t i = 0; i < y.size(); ++i) sum += dy[i] * y[i];
    return sum;
  }
  void Backward() {
    const Bound<const T> p(c, weights.data());
    const Bound<T> d(c, gradients.data());
    AttentionBackward<T>(c.rows, p.p, MakeSettings(c, mask), cache, dy, dx, d.p, arena);
  }

  Case c;
  int64_t size = Bound<T>(c, nullptr).size();
  Tensor<T> x = Tensor<T>({kB, kN, kD}), dx = Tensor<T>({kB, kN, kD});
  Tensor<T> weights = Tensor<T>({size}), gradients = Tensor<T>({size});
  Tensor<T> y = Tensor<T>({kB * c.rows, kD}), dy = Tensor<T>({kB * c.rows, kD}),
            residual = Tensor<T>({kB * c.rows, kD});
  Tensor<bool> mask = Tensor<bool>({kB, 1, 1, kN});
  Arena arena;
  AttentionCache<T> cache;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (int kind = 0; kind < 9; ++kind) {
    for (const int64_t rows : {kN, int64_t{1}, int64_t{3}}) {
      for (int option = 0; option < kOptions; ++option) {
        const Case c{static_cast<AttentionKind>(kind), rows, static_cast<Option>(option)};
        if (c.option == Option::kHeadNorms && !AllowsQueryKeyNorm(c.kind)) continue;
        if (c.option == Option::kRotary && !AllowsRotary(c.kind)) continue;
        cases.push_back(c);
      }
    }
  }
  return cases;
}

class AttentionGradient : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Kinds, AttentionGradient, testing::ValuesIn(Cases()), [](const auto& test) {
  return std::string(kKindNames[static_cast<int>(test.param.kind)]) + "Rows" + std::to_string(test.param.rows) +
         kOptionNames[static_cast<int>(test.param.option)];
});

TEST_P(AttentionGradient, IsThatOfTheLoss) {
  Layer<double> layer(GetParam());
  layer.Loss();
  layer.Backward();
  const auto loss = [&] { return layer.Loss(); };
  ExpectGradient(loss, layer.x, layer.dx, "x");
  ExpectGradient(loss, layer.weights, layer.gradients, "weights");
}

// A second pass adds to what is there, and overwrites dx.
TEST_P(AttentionGradient, IsAddedToThatOfTheWeights) {
  Layer<double> layer(GetParam());
  layer.Forward();
  layer.Backward();
  const auto once = layer.gradients.Clone(), dx = layer.dx.Clone();
  layer.Backward();
  for (int64_t i = 0; i < once.size(); ++i)
    ASSERT_NEAR(layer.gradients[i], 2 * once[i], 1e-13 * (1 + std::abs(once[i])));
  EXPECT_EQ(std::memcmp(layer.dx.data(), dx.data(), sizeof(double) * static_cast<size_t>(dx.size())), 0);
}

TEST_P(AttentionGradient, IsTheSameImageByImage) {
  const Case c = GetParam();
  Layer<double> layer(c);
  layer.Forward();
  layer.Backward();
  Tensor<double> gradients({layer.size}), y({c.rows, kD}), dx({1, kN, kD});
  const Bound<const double> p(c, layer.weights.data());
  const Bound<double> d(c, gradients.data());
  for (int64_t b = 0; b < kB; ++b) {
    AttentionSettings s = MakeSettings(c, layer.mask.view().slice(0, b, b + 1));
    s.first_image = b;
    Arena arena;
    AttentionCache<double> cache;
    const auto rows_of = [&](View<double> all) { return all.slice(0, b * c.rows, (b + 1) * c.rows); };
    const View<const double> residual = c.option == Option::kResidual ? rows_of(layer.residual) : View<double>();
    AttentionForward<double>(layer.x.view().slice(0, b, b + 1), c.rows, p.p, s, residual, y, cache, arena);
    AttentionBackward<double>(c.rows, p.p, s, cache, rows_of(layer.dy), dx, d.p, arena);
    for (int64_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], layer.y[b * y.size() + i], 1e-13);
    for (int64_t i = 0; i < dx.size(); ++i) ASSERT_NEAR(dx[i], layer.dx[b * dx.size() + i], 1e-12);
  }
  for (int64_t i = 0; i < layer.size; ++i)
    ASSERT_NEAR(gradients[i], layer.gradients[i], 1e-12 * (1 + std::abs(gradients[i])));
}

TEST_P(AttentionGradient, HasTheSameBitsForAnyNumberOfThreads) {
  const RestoreThreads restore;
  std::vector<Layer<float>> layers;
  for (const int threads : {1, 2, 3}) {
    SetNumThreads(threads);
    Layer<float>& layer = layers.emplace_back(GetParam());
    layer.Forward();
    layer.Backward();
  }
  for (const Layer<float>& layer : layers) {
    const auto same = [](const Tensor<float>& a, const Tensor<float>& b) {
      return std::memcmp(a.data(), b.data(), sizeof(float) * static_cast<size_t>(a.size())) == 0;
    };
    EXPECT_TRUE(same(layer.y, layers[0].y));
    EXPECT_TRUE(same(layer.dx, layers[0].dx));
    EXPECT_TRUE(same(layer.gradients, layers[0].gradients));
  }
}

TEST(AttentionGradientErrors, ShapesThatDoNotFit) {
  Layer<double> layer({kSeparate, kN, Option::kPlain});
  layer.c.rows = kN + 1;
  EXPECT_THROW(layer.Forward(), Error);
}

TEST(AttentionGradientErrors, RotaryPositionsWithoutQueriesAndKeysOfTokens) {
  for (const AttentionKind kind : {kMerged, kGaussian, kPositional}) {
    Layer<double> layer({kind, kN, Option::kRotary});
    EXPECT_THROW(layer.Forward(), Error);
  }
}

}  // namespace
}  // namespace qkv::nn
