// The attention layer and the block against naive ones: norms on queries and keys, no projection, fewer rows, weights.
#include "qkv/nn/attention.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "qkv/nn/rows.h"
#include "tests/nn/layers.h"

namespace qkv::nn {
namespace {

constexpr int64_t kB = 2, kN = 11, kD = 12, kH = 3, kE = 5, kJoined = kH * kE;

// An attention layer in plain numbers. Its options are switched by the tests.
struct NaiveAttention {
  Sampler sampler{9};
  NamedLinear query{sampler, kJoined, kD}, key_value{sampler, 2 * kJoined, kD}, projection{sampler, kD, kJoined};
  NamedNorm query_norm{sampler, kE}, key_norm{sampler, kE}, output_norm{sampler, kJoined};
  bool qk_norm = false, with_output_norm = false, with_projection = true;
  bool together = false;  // one product makes queries, keys and values

  template <typename T>
  AttentionLayer<T> As() const {
    AttentionLayer<T> layer;
    layer.heads = kH;
    layer.head_width = kE;
    if (together) {
      Tensor<T> weight({3 * kJoined, kD}), bias({3 * kJoined});
      for (const NamedLinear* part : {&query, &key_value}) {
        const int64_t row = part == &query ? 0 : kJoined;
        const Tensor<T> w = Cast<T>(part->weight), b = Cast<T>(part->bias);
        std::copy_n(w.data(), w.size(), weight.data() + row * kD);
        std::copy_n(b.data(), b.size(), bias.data() + row);
      }
      layer.query_key_value = {simd::PackedMatrix<T>(weight.view()), std::move(bias)};
    } else {
      layer.query = query.As<T>();
      layer.query_key_value = key_value.As<T>();
    }
    if (qk_norm) layer.query_norm = query_norm.As<T>(), layer.key_norm = key_norm.As<T>();
    if (with_output_norm) layer.output_norm = output_norm.As<T>();
    if (with_projection) layer.projection = projection.As<T>();
    return layer;
  }

  // One sequence: x [N, D] to [N, D or joined]; weights gets [H, N, N].
  Matrix operator()(const Matrix& x, Matrix* weights) const {
    const auto N = static_cast<int64_t>(x.size()) / kD;
    Matrix q = query(x), kv = key_value(x), k, v, joined(static_cast<size_t>(N * kJoined));
    for (int64_t n = 0; n < N; ++n) {
      const double* row = kv.data() + n * 2 * kJoined;
      k.insert(k.end(), row, row + kJoined);
      v.insert(v.end(), row + kJoined, row + 2 * kJoined);
    }
    if (qk_norm) q = query_norm(q), k = key_norm(k);  // [N, H, E] is [N·H, E]
    for (int64_t h = 0; h < kH; ++h) {
      for (int64_t i = 0; i < N; ++i) {
        std::vector<double> scores(static_cast<size_t>(N));
        for (int64_t j = 0; j < N; ++j) {
          for (int64_t e = 0; e < kE; ++e) {
            scores[static_cast<size_t>(j)] += q[static_cast<size_t>(i * kJoined + h * kE + e)] *
                                              k[static_cast<size_t>(j * kJoined + h * kE + e)] / std::sqrt(double{kE});
          }
        }
        simd::reference::Softmax(scores.data(), N);
        weights->insert(weights->end(), scores.begin(), scores.end());
        for (int64_t j = 0; j < N; ++j) {
          for (int64_t e = 0; e < kE; ++e) {
            joined[static_cast<size_t>(i * kJoined + h * kE + e)] +=
                scores[static_cast<size_t>(j)] * v[static_cast<size_t>(j * kJoined + h * kE + e)];
          }
        }
      }
    }
    if (with_output_norm) joined = output_norm(joined);
    return with_projection ? projection(joined) : joined;
  }
};

template <typename T>
class AttentionLayers : public testing::Test {
 protected:
  // Runs the layer on random sequences, and compares the output and all weights.
  void Check(const NaiveAttention& naive) {
    Sampler sampler(4);
    const auto x = sampler.Normal<double>({kB, kN, kD});
    Matrix expected, expected_weights;
    for (int64_t b = 0; b < kB; ++b) {
      const Matrix y = naive(Matrix(x.view().at(b), x.view().at(b) + kN * kD), &expected_weights);
      expected.insert(expected.end(), y.begin(), y.end());
    }
    const Tensor<T> x_t = Cast<T>(x);
    Tensor<T> out({kB, kN, naive.with_projection ? kD : kJoined}), weights({kB, kH, kN, kN});
    const WeightsRequest<T> request{0, kN, weights};
    Arena arena;
    AttentionForward<T>(x_t, x_t, naive.As<T>(), nullptr, {}, out, arena, {.requests = std::span(&request, 1)});
    EXPECT_LE(RelativeError<T>(AsOneMatrix(out.view()), expected), LayerTolerance<T>());
    EXPECT_LE(RelativeError<T>(weights.view().reshape({kB * kH * kN, kN}), expected_weights), LayerTolerance<T>());
  }
};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(AttentionLayers, Scalars);

TYPED_TEST(AttentionLayers, Plain) { this->Check({}); }

TYPED_TEST(AttentionLayers, NormsOnQueriesAndKeys) {
  NaiveAttention naive;
  naive.qk_norm = true;
  this->Check(naive);
}

TYPED_TEST(AttentionLayers, OneProductOrTwoAreTheSameToTheBit) {
  using T = TypeParam;
  NaiveAttention one;
  one.qk_norm = one.together = true;
  this->Check(one);
  NaiveAttention two;  // of the same numbers
  two.qk_norm = true;
  const Tensor<T> x = Cast<T>(Sampler(5).Normal<double>({kB, kN, kD}));
  for (const int64_t rows : {int64_t{1}, kN - 1, int64_t{kN}}) {
    for (const bool last : {false, true}) {
      Arena arena;
      Tensor<T> of_one({kB, rows, kD}), of_two({kB, rows, kD});
      const auto run = [&](const NaiveAttention& layer, View<T> out) {
        const View<const T> queries = x.view().slice(1, last ? kN - rows : 0, last ? kN : rows);
        AttentionForward<T>(queries, x, layer.As<T>(), nullptr, {}, out, arena, {.last_rows = last});
      };
      run(one, of_one), run(two, of_two);
      for (int64_t i = 0; i < of_one.size(); ++i) ASSERT_EQ(of_one[i], of_two[i]);
    }
  }
}

// Heads of 64 go to the projection in chunks. Without a projection they are rows, of which it makes the same.
TYPED_TEST(AttentionLayers, HeadsInChunksAreTheSameToTheBit) {
  using T = TypeParam;
  constexpr int64_t kWide = simd::kRowChunk, kWideJoined = kH * kWide;
  Sampler sampler(12);
  const NamedLinear qkv(sampler, 3 * kWideJoined, kD), projection(sampler, kD, kWideJoined);
  AttentionLayer<T> layer;
  layer.heads = kH, layer.head_width = kWide;
  layer.query_key_value = qkv.As<T>();
  const Tensor<T> x = Cast<T>(sampler.Normal<double>({kB, kN, kD}));
  for (const int64_t rows : {int64_t{1}, int64_t{2}, int64_t{kN}}) {
    for (const bool last : {false, true}) {
      Arena arena;
      Tensor<T> joined({kB, rows, kWideJoined}), out({kB, rows, kD}), expected({kB, rows, kD});
      const View<const T> queries = x.view().slice(1, last ? kN - rows : 0, last ? kN : rows);
      layer.projection = {};
      AttentionForward<T>(queries, x, layer, nullptr, {}, joined, arena, {.last_rows = last});
      layer.projection = projection.As<T>();
      LinearForward<T>(AsOneMatrix(View<const T>(joined)), layer.projection, AsOneMatrix(expected.view()));
      AttentionForward<T>(queries, x, layer, nullptr, {}, out, arena, {.last_rows = last});
      for (int64_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], expected[i]) << rows << " rows at " << i;
    }
  }
}

TYPED_TEST(AttentionLayers, NormBeforeTheProjection) {
  NaiveAttention naive;
  naive.with_output_norm = true;
  this->Check(naive);
}

TYPED_TEST(AttentionLayers, WithoutProjection) {
  NaiveAttention naive;
  naive.with_projection = false;
  this->Check(naive);
}

TYPED_TEST(AttentionLayers, BlockAddsBothHalvesScaled) {
  using T = TypeParam;
  Sampler sampler(6);
  const NaiveAttention attention;
  const NamedNorm norm1(sampler, kD), norm2(sampler, kD);
  const NamedLinear fc1(sampler, 30, kD), fc2(sampler, kD, 30);
  const auto scale1 = sampler.Normal<double>({kD}), scale2 = sampler.Normal<double>({kD}),
             x = sampler.Normal<double>({kB, kN, kD});
  Matrix expected;
  for (int64_t b = 0; b < kB; ++b) {
    Matrix y(x.view().at(b), x.view().at(b) + kN * kD), ignored;
    const auto add = [&](const Matrix& part, const Tensor<double>& scale) {
      for (size_t i = 0; i < y.size(); ++i) y[i] += scale[static_cast<int64_t>(i) % kD] * part[i];
    };
    add(attention(norm1(y), &ignored), scale1);
    Matrix hidden = fc1(norm2(y));
    for (double& h : hidden) h = simd::reference::Activate(simd::Activation::kGelu, h);
    add(fc2(hidden), scale2);
    expected.insert(expected.end(), y.begin(), y.end());
  }
  Block<T> block;
  block.norm1 = norm1.As<T>();
  block.attention = attention.As<T>();
  block.scale1 = Cast<T>(scale1);
  block.norm2 = norm2.As<T>();
  block.mlp.fc1 = fc1.As<T>();
  block.mlp.fc2 = fc2.As<T>();
  block.scale2 = Cast<T>(scale2);
  Tensor<T> all = Cast<T>(x), some;
  Arena arena;
  BlockForward<T>(all, block, kN, arena);
  EXPECT_LE(RelativeError<T>(AsOneMatrix(all.view()), expected), LayerTolerance<T>());

  // The first rows alone, or the last, are the same to the bit, and the others stay as they were.
  for (const bool last : {false, true}) {
    some = Cast<T>(x);
    BlockForward<T>(some, block, 2, arena, {.last_rows = last});
    for (int64_t b = 0; b < kB; ++b) {
      for (int64_t i = 0; i < kN * kD; ++i) {
        const bool computed = last ? i >= (kN - 2) * kD : i < 2 * kD;
        EXPECT_EQ(some.view().at(b)[i], computed ? all.view().at(b)[i] : static_cast<T>(x.view().at(b)[i]));
      }
    }
  }
}

TYPED_TEST(AttentionLayers, PoolLooksAtAllTokensWithOneQuery) {
  using T = TypeParam;
  Sampler sampler(8);
  const NaiveAttention naive;
  const NamedNorm norm(sampler, kD);
  const NamedLinear fc1(sampler, 30, kD), fc2(sampler, kD, 30);
  const auto latent = sampler.Normal<double>({1, kD}), x = sampler.Normal<double>({kB, kN, kD});
  // As one more token that nobody's keys see: the naive layer gets it as a query only.
  Matrix expected;
  for (int64_t b = 0; b < kB; ++b) {
    const int64_t keys = kN - 1;  // the first token is a prefix
    const Matrix tokens(x.view().at(b, 1), x.view().at(b) + kN * kD), kv = naive.key_value(tokens),
                                                                      q = naive.query(Plain(latent));
    Matrix joined(kJoined);
    for (int64_t h = 0; h < kH; ++h) {
      std::vector<double> scores(static_cast<size_t>(keys));
      for (int64_t j = 0; j < keys; ++j) {
        for (int64_t e = 0; e < kE; ++e) {
          scores[static_cast<size_t>(j)] += q[static_cast<size_t>(h * kE + e)] *
                                            kv[static_cast<size_t>(j * 2 * kJoined + h * kE + e)] /
                                            std::sqrt(double{kE});
        }
      }
      simd::reference::Softmax(scores.data(), keys);
      for (int64_t j = 0; j < keys; ++j) {
        for (int64_t e = 0; e < kE; ++e) {
          joined[static_cast<size_t>(h * kE + e)] +=
              scores[static_cast<size_t>(j)] * kv[static_cast<size_t>(j * 2 * kJoined + kJoined + h * kE + e)];
        }
      }
    }
    Matrix y = naive.projection(joined), hidden = fc1(norm(y));
    for (double& value : hidden) value = simd::reference::Activate(simd::Activation::kGelu, value);
    const Matrix added = fc2(hidden);
    for (size_t i = 0; i < y.size(); ++i) expected.push_back(y[i] + added[i]);
  }
  AttentionPool<T> pool;
  pool.latent = Cast<T>(latent);
  pool.attention = naive.As<T>();
  pool.norm = norm.As<T>();
  pool.mlp.fc1 = fc1.As<T>();
  pool.mlp.fc2 = fc2.As<T>();
  Tensor<T> out({kB, kD});
  Arena arena;
  AttentionPoolForward<T>(Cast<T>(x), 1, pool, out, arena);
  EXPECT_LE(RelativeError<T>(out, expected), LayerTolerance<T>());
}

}  // namespace
}  // namespace qkv::nn
