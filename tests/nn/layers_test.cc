// Linear, LayerNorm, MLP, patches and pooling against naive layers in double precision, in both scalar types.
#include "tests/nn/layers.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "qkv/nn/rows.h"

namespace qkv::nn {
namespace {

template <typename T>
class Layers : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(Layers, Scalars);

template <typename T>
View<const T> Rows(const Tensor<T>& x) {
  return AsOneMatrix(x.view());
}

TYPED_TEST(Layers, LinearWithScaleAndResidual) {
  using T = TypeParam;
  Sampler sampler(1);
  const NamedLinear linear(sampler, 37, 21);
  const auto x = sampler.Normal<double>({13, 21}), scale = sampler.Normal<double>({37}),
             rest = sampler.Normal<double>({13, 37});
  Matrix expected = linear(Plain(x));
  for (size_t i = 0; i < expected.size(); ++i) {
    const double value = simd::reference::Activate(simd::Activation::kQuickGelu, expected[i]);
    expected[i] = rest[static_cast<int64_t>(i)] + scale[static_cast<int64_t>(i) % 37] * value;
  }
  const Tensor<T> x_t = Cast<T>(x), scale_t = Cast<T>(scale);
  Tensor<T> y = Cast<T>(rest);  // the residual is the output
  LinearForward<T>(x_t, linear.As<T>(), y,
                   {.activation = simd::Activation::kQuickGelu, .scale = &scale_t, .residual = y});
  EXPECT_LE(RelativeError<T>(y, expected), LayerTolerance<T>());
}

TYPED_TEST(Layers, LinearRefusesOtherShapes) {
  using T = TypeParam;
  Sampler sampler(1);
  const Linear<T> linear = NamedLinear(sampler, 4, 3).As<T>();
  Tensor<T> y({2, 4});
  EXPECT_THROW(LinearForward<T>(Tensor<T>({2, 5}), linear, y), Error);
  EXPECT_THROW(LinearForward<T>(Tensor<T>({3, 3}), linear, y), Error);
  EXPECT_THROW(LinearForward<T>(Tensor<T>({2, 3}), linear, y, {.residual = Tensor<T>({2, 5})}), Error);
}

TYPED_TEST(Layers, NormInPlaceOnStridedRows) {
  using T = TypeParam;
  for (const int64_t D : {1, 7, 16, 33, 768}) {
    Sampler sampler(static_cast<uint64_t>(D));
    const NamedNorm norm(sampler, D);
    Tensor<T> wide = sampler.Normal<T>({70, D + 3}, 2, 3);
    const View<T> x = wide.view().slice(1, 0, D);
    Matrix plain;
    for (int64_t r = 0; r < 70; ++r) plain.insert(plain.end(), x.row(r), x.row(r) + D);
    const T beyond = *wide.view().at(69, D);
    NormForward<T>(x, norm.As<T>(), x);
    EXPECT_LE(RelativeError<T>(x, norm(plain)), LayerTolerance<T>());
    EXPECT_EQ(*wide.view().at(69, D), beyond);
  }
  Sampler sampler(1);
  EXPECT_THROW(NormForward<T>(Tensor<T>({2, 5}), NamedNorm(sampler, 4).template As<T>(), Tensor<T>({2, 5})), Error);
}

// M: the hidden layer is rows, or chunks of them.
template <typename T>
void CheckMlps(int64_t M) {
  constexpr int64_t D = 12;
  for (const simd::Gate gate_rows : {simd::Gate::kNone, simd::Gate::kFirst, simd::Gate::kLast}) {
    for (const auto activation : {simd::Activation::kGelu, simd::Activation::kSilu, simd::Activation::kRelu}) {
      Sampler sampler(5);
      const bool plain = gate_rows == simd::Gate::kNone;
      const NamedLinear fc1(sampler, plain ? M : 2 * M, D), fc2(sampler, D, M);
      const auto x = sampler.Normal<double>({2, 9, D});
      const Matrix input(x.data(), x.data() + x.size()), gates = fc1(input);
      Matrix hidden(static_cast<size_t>(18 * M));
      for (int64_t r = 0; r < 18; ++r) {
        for (int64_t m = 0; m < M; ++m) {
          const double* row = gates.data() + r * (plain ? M : 2 * M);
          const double first = row[m], second = plain ? 1 : row[M + m];
          const double gate = gate_rows == simd::Gate::kLast ? second : first;
          hidden[static_cast<size_t>(r * M + m)] =
              simd::reference::Activate(activation, gate) * (gate_rows == simd::Gate::kLast ? first : second);
        }
      }
      Mlp<T> mlp;
      mlp.activation = activation;
      mlp.fc1 = fc1.As<T>(gate_rows);
      mlp.fc2 = fc2.As<T>();
      Tensor<T> y({2, 9, D});
      Arena arena;
      const Tensor<T> x_t = Cast<T>(x);
      MlpForward<T>(x_t, mlp, nullptr, {}, y, arena);
      EXPECT_LE(RelativeError<T>(Rows(y), fc2(hidden)), LayerTolerance<T>());
      for (const int64_t rows : {1, 4}) {  // of each entry, which are no matrix together
        Tensor<T> some({2, rows, D});
        MlpForward<T>(x_t.view().slice(1, 0, rows), mlp, nullptr, {}, some, arena);
        for (int64_t b = 0; b < 2; ++b) {
          for (int64_t i = 0; i < rows * D; ++i) ASSERT_EQ(some.view().at(b)[i], y.view().at(b)[i]);
        }
      }
    }
  }
}

TYPED_TEST(Layers, MlpOfEveryKind) {
  CheckMlps<TypeParam>(20);
  CheckMlps<TypeParam>(3 * simd::kRowChunk);
}

template <typename T>
void CheckPatches(int64_t Ph, int64_t Pw, bool channel_last) {
  constexpr int64_t C = 3, D = 6;
  const int64_t height = 2 * Ph + 1, width = 2 * Pw + 2;  // a row and two columns are left over
  Sampler sampler(3);
  const NamedLinear projection(sampler, D, C * Ph * Pw);
  const auto pixels = sampler.Normal<double>({2, C, height, width});
  Matrix patches;
  for (int64_t p = 0; p < 2 * 4; ++p) {
    const int64_t image = p / 4, top = p % 4 / 2 * Ph, left = p % 2 * Pw;
    for (int64_t i = 0; i < C * Ph * Pw; ++i) {
      const int64_t c = channel_last ? i % C : i / (Ph * Pw);
      const int64_t at = channel_last ? i / C : i % (Ph * Pw);
      patches.push_back(*pixels.view().at(image, c, top + at / Pw, left + at % Pw));
    }
  }
  PatchEmbed<T> embed;
  embed.patch_height = Ph;
  embed.patch_width = Pw;
  embed.channel_last = channel_last;
  embed.projection = projection.As<T>();
  Tensor<T> tokens({2, 4, D});
  Arena arena;
  PatchEmbedForward<T>(Cast<T>(pixels), embed, tokens, arena);
  EXPECT_LE(RelativeError<T>(Rows(tokens), projection(patches)), LayerTolerance<T>());
  EXPECT_THROW(PatchEmbedForward<T>(Tensor<T>({2, 1, height, width}), embed, tokens, arena), Error);
}

TYPED_TEST(Layers, PatchesInBothOrdersLeaveOutTheRest) {
  for (const bool channel_last : {false, true}) {
    CheckPatches<TypeParam>(2, 4, channel_last);
    CheckPatches<TypeParam>(8, 16, channel_last);  // 6 chunks
    CheckPatches<TypeParam>(8, 24, channel_last);  // 9, of which rows of pixels reach into two
  }
}

TYPED_TEST(Layers, PatchesAreTheSameInChunks) {
  using T = TypeParam;
  constexpr int64_t Ph = 8, Pw = 24, features = 3 * Ph * Pw, chunks = features / simd::kRowChunk;
  Sampler sampler(4);
  const auto pixels = sampler.Normal<T>({2, 3, Ph, 2 * Pw});
  for (const bool channel_last : {false, true}) {
    Tensor<T> flat({4, features}), cut({chunks, 4, simd::kRowChunk});
    const View<T> in_chunks(cut.data(), {4, chunks, simd::kRowChunk}, {simd::kRowChunk, 4 * simd::kRowChunk, 1});
    CutPatches<T>(pixels, Ph, Pw, channel_last, flat);
    CutPatches<T>(pixels, Ph, Pw, channel_last, in_chunks);
    for (int64_t p = 0; p < 4; ++p) {
      for (int64_t i = 0; i < features; ++i) {
        ASSERT_EQ(*in_chunks.at(p, i / simd::kRowChunk, i % simd::kRowChunk), *flat.view().at(p, i));
      }
    }
    EXPECT_THROW(CutPatches<T>(pixels, Ph, Pw, channel_last, in_chunks.slice(1, 0, chunks - 1)), Error);
    Tensor<T> small({16, 2, simd::kRowChunk});  // 3 · 4 · 12 = 144 features are no whole chunks
    EXPECT_THROW(CutPatches<T>(pixels, 4, 12, channel_last, small), Error);
  }
}

TYPED_TEST(Layers, MeanAndMaxSkipThePrefix) {
  using T = TypeParam;
  Tensor<T> x({2, 4, 3});
  for (int64_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(i % 5 - 2);
  *x.view().at(0, 0, 0) = T(100);  // of the prefix
  Tensor<T> mean({2, 3}), greatest({2, 3});
  MeanPool<T>(x, 1, mean);
  MaxPool<T>(x, 1, greatest);
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t d = 0; d < 3; ++d) {
      T sum = 0, most = -100;
      for (int64_t n = 1; n < 4; ++n) sum += *x.view().at(b, n, d), most = std::max(most, *x.view().at(b, n, d));
      EXPECT_NEAR(*mean.view().at(b, d), sum / 3, LayerTolerance<T>());
      EXPECT_EQ(*greatest.view().at(b, d), most);
    }
  }
}

}  // namespace
}  // namespace qkv::nn
