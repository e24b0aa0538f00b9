// Pooling in training.
#include "qkv/nn/training/pool.h"

#include "qkv/nn/pool.h"
#include "tests/nn/training.h"

namespace qkv::nn {
namespace {

// timm's pools; mean and maximum are half of each.
enum class Pool { kMean, kMax, kMeanMax, kAttention };

struct PoolLayer {
  Pool pool = Pool::kMean;
  int64_t images = 2, N = 5, D = 6, begin = 0, heads = 2, M = 7;
  int64_t padding = 0;  // tokens of each image that lie behind its own

  Shape x() const { return {images, N, D}; }
  Shape y() const { return {images, D}; }
  int64_t parameters() const {
    return pool == Pool::kAttention ? D + 4 * D * (D + 1) + 2 * D + M * (D + 1) + D * (M + 1) : 0;
  }

  template <typename T>
  AttentionPoolParameters<T> Parameters(View<T> buffer) const {
    Cut<T> cut(buffer);
    AttentionPoolParameters<T> p;
    p.latent = cut({1, 1, D});
    p.query = cut.Linear(D, D), p.key_value = cut.Linear(2 * D, D), p.projection = cut.Linear(D, D);
    p.norm = cut.Norm(D, simd::NormKind::kLayer, 0.25);
    p.mlp = {cut.Linear(M, D), {}, cut.Linear(D, M)};
    return p;
  }
  template <typename T>
  void Copy(View<const T> from, View<T> to) const {
    for (int64_t b = 0; b < images; ++b) std::copy_n(from.at(b), N * D, to.at(b));
  }

  template <typename T>
  void Run(View<const T> weights, View<const T> x, View<T> y, const Gradients<T>& g) const {
    Tensor<T> x_memory({images, N + padding, D}), dx_memory({images, N + padding, D});
    const View<T> xs = x_memory.view().slice(1, 0, N), dx = dx_memory.view().slice(1, 0, N);
    Copy<T>(x, xs);
    const AttentionPoolSettings settings{.heads = heads};
    Arena arena;
    AttentionPoolCache<T> cache;
    Tensor<T> other({images, D}), half({images, D});
    if (pool == Pool::kAttention) {
      AttentionPoolForward<T>(xs, begin, Parameters<const T>(weights), settings, y, cache, arena);
    } else if (pool == Pool::kMax) {
      MaxPool<T>(xs, begin, y);
    } else {
      MeanPool<T>(xs, begin, y);
    }
    if (pool == Pool::kMeanMax) {
      MaxPool<T>(xs, begin, other);
      for (int64_t i = 0; i < y.size(); ++i) y.data()[i] = (y.data()[i] + other[i]) / 2;
    }
    if (g.dy.empty()) return;
    for (int64_t i = 0; i < half.size(); ++i) half[i] = g.dy.data()[i] / 2;
    Copy<T>(g.dx, dx);
    if (pool == Pool::kAttention) {
      AttentionPoolBackward<T>(xs, begin, Parameters<const T>(weights), settings, cache, g.dy, dx, g.add,
                               Parameters<T>(g.d), arena);
    } else if (pool == Pool::kMax) {
      MaxPoolBackward<T>(xs, begin, g.dy, dx, g.add);
    } else {
      MeanPoolBackward<T>(pool == Pool::kMeanMax ? View<const T>(half) : g.dy, begin, dx, g.add);
    }
    if (pool == Pool::kMeanMax) MaxPoolBackward<T>(xs, begin, half, dx, true);
    Copy<T>(dx, g.dx);
    for (int64_t i = 0; i < padding * D; ++i) EXPECT_EQ(dx_memory.view().at(0, N)[i], T{0}) << "wrote past the tokens";
  }
};

constexpr Pool kPools[] = {Pool::kMean, Pool::kMax, Pool::kMeanMax, Pool::kAttention};

TEST(PoolGradient, EqualsFiniteDifferences) {
  for (const Pool pool : kPools) {
    for (const int64_t begin : {0, 1, 4}) {
      CheckFiniteDifferences(PoolLayer{.pool = pool, .begin = begin});
      CheckFiniteDifferences(PoolLayer{.pool = pool, .begin = begin, .padding = 1});
    }
    CheckFiniteDifferences(PoolLayer{.pool = pool, .images = 1, .N = 3, .D = 18, .heads = 1});
  }
}

class PoolGradientTest : public IsaTest {};
QKV_FOR_ALL_ISAS(PoolGradientTest);

TEST_P(PoolGradientTest, FloatEqualsDouble) {
  for (const Pool pool : kPools) {
    CheckFloat(PoolLayer{.pool = pool, .images = 3, .N = 40, .D = 38, .begin = 2});
  }
}

TEST_P(PoolGradientTest, SameBitsForAnyThreads) {
  for (const Pool pool : kPools) {
    CheckThreads(PoolLayer{.pool = pool, .images = 7, .N = 65, .D = 64, .begin = 1, .heads = 4, .M = 128});
  }
}

TEST(PoolGradient, EqualMaximaShare) {
  Tensor<double> x({1, 4, 2}), dout({1, 2}), dx({1, 4, 2});
  const double tokens[] = {9, 9, 3, 1, 3, 2, 0, 2};  // the first token is not pooled
  std::copy_n(tokens, 8, x.data());
  dout[0] = 6, dout[1] = 8;
  for (double& value : dx.span()) value = 77;
  MaxPoolBackward<double>(x, 1, dout, dx, false);
  const double expected[] = {0, 0, 3, 0, 3, 4, 0, 4};
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(dx[i], expected[i]) << i;
}

// Training computes what inference computes.
TEST(PoolGradient, ForwardIsInferences) {
  const PoolLayer layer{.pool = Pool::kAttention, .N = 9, .D = 20, .begin = 1, .heads = 5, .M = 30};
  const Numbers<float> n(layer);
  const auto p = layer.Parameters<const float>(n.weights);
  const auto copy = [](View<const float> from) {
    Tensor<float> to(from.shape());
    std::copy_n(from.data(), from.size(), to.data());
    return to;
  };
  const auto linear = [&](const LinearParameters<const float>& from) {
    return Linear<float>{simd::PackedMatrix<float>(from.weight), copy(from.bias)};
  };
  AttentionPool<float> pool;
  pool.latent = copy(p.latent.reshape({1, 20}));
  pool.attention.heads = 5, pool.attention.head_width = 4;
  pool.attention.query = linear(p.query), pool.attention.query_key_value = linear(p.key_value);
  pool.attention.projection = linear(p.projection);
  pool.norm = {copy(p.norm.gamma), copy(p.norm.beta), 0.25f};
  pool.mlp.fc1 = linear(p.mlp.fc1), pool.mlp.fc2 = linear(p.mlp.fc2);
  Tensor<float> expected({2, 20}), y({2, 20});
  Arena arena;
  AttentionPoolForward<float>(n.x, 1, pool, expected, arena);
  layer.Run<float>(n.weights, n.x, y, {});
  EXPECT_LE(RelativeError(y, Cast<double>(expected)), LayerTolerance<float>());
}

TEST(PoolGradient, RefusesOtherShapes) {
  Tensor<float> x({2, 4, 3}), out({2, 3}), wrong({2, 4});
  EXPECT_THROW(MeanPoolBackward<float>(wrong, 0, x, false), Error);
  EXPECT_THROW(MeanPoolBackward<float>(out, 4, x, false), Error);
  EXPECT_THROW(MaxPoolBackward<float>(x, 0, wrong, x, false), Error);
  EXPECT_THROW(MaxPoolBackward<float>(x, 0, out, Tensor<float>({2, 5, 3}), false), Error);
}

}  // namespace
}  // namespace qkv::nn
