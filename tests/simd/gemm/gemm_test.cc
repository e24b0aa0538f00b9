#include "qkv/simd/gemm/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "qkv/core/parallel.h"
#include "qkv/simd/rows/reference.h"
#include "tests/support/isas.h"
#include "tests/support/sampler.h"
#include "tests/support/threads.h"
#include "tests/support/tolerance.h"

namespace qkv::simd {
namespace {

class GemmTest : public IsaTest {
 protected:
  RestoreThreads restore_;
};
QKV_FOR_ALL_ISAS(GemmTest);

// y against the double product, with bounds from Σ|x||w|.
template <typename T>
void CheckProduct(int64_t M, int64_t N, int64_t K, int64_t padding) {
  Sampler sampler(static_cast<uint64_t>(M * 1000003 + N * 1009 + K));
  const auto x = sampler.Normal<T>({M, K + padding}), w = sampler.Normal<T>({N, K});
  auto y = Tensor<T>({M, N + padding});
  for (T& value : y.span()) value = 77;
  Gemm<T>(View<const T>(x.data(), {M, K}, {K + padding, 1}), PackedMatrix<T>(w.view()), {},
          View<T>(y.data(), {M, N}, {N + padding, 1}));
  std::vector<double> x64(M * K), w64(N * K), exact(M * N), magnitude(M * N);
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t k = 0; k < K; ++k) x64[m * K + k] = x[m * (K + padding) + k];
  }
  for (int64_t i = 0; i < N * K; ++i) w64[i] = w[i];
  reference::MatMul(x64.data(), w64.data(), M, N, K, exact.data(), magnitude.data());
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t n = 0; n < N; ++n) {
      ASSERT_NEAR(y[m * (N + padding) + n], exact[m * N + n], DotTolerance<T>(K, magnitude[m * N + n]))
          << "M " << M << " N " << N << " K " << K << " at " << m << ", " << n;
    }
    for (int64_t n = N; n < N + padding; ++n) ASSERT_EQ(y[m * (N + padding) + n], 77) << "wrote past a row";
  }
}

TEST_P(GemmTest, OddShapes) {
  for (const int64_t M : {1, 2, 5, 6, 7, 13, 14, 15, 29}) {
    for (const int64_t N : {1, 3, 8, 15, 16, 17, 33, 65}) {
      for (const int64_t K : {1, 2, 63, 64, 65, 130}) {
        CheckProduct<float>(M, N, K, 0);
        CheckProduct<double>(M, N, K, 3);
      }
    }
  }
}

TEST_P(GemmTest, BlocksOfRowsAndDepth) {
  CheckProduct<float>(197, 100, 768, 0);
  CheckProduct<float>(300, 70, 333, 5);
  CheckProduct<float>(3, 300, 1025, 1);
  CheckProduct<float>(241, 33, 257, 0);
  CheckProduct<double>(250, 40, 300, 1);
}

TEST_P(GemmTest, AnyStridesOfTheWeights) {
  const auto w = Sampler(1).Normal<float>({20, 30}), x = Sampler(2).Normal<float>({4, 20});
  // w seen transposed: 30 outputs, 20 inputs.
  const PackedMatrix<float> packed(View<const float>(w.data(), {30, 20}, {1, 30}));
  auto y = Tensor<float>({4, 30});
  Gemm<float>(x, packed, {}, y);
  for (int64_t m = 0; m < 4; ++m) {
    for (int64_t n = 0; n < 30; ++n) {
      double sum = 0, magnitude = 0;
      for (int64_t k = 0; k < 20; ++k) {
        const double product = static_cast<double>(x[m * 20 + k]) * w[k * 30 + n];
        sum += product, magnitude += std::abs(product);
      }
      ASSERT_NEAR(y[m * 30 + n], sum, DotTolerance<float>(20, magnitude));
    }
  }
}

struct EpilogueParts {
  bool bias, scale, residual, in_place;
};

template <typename T>
void CheckEpilogue(Activation activation, EpilogueParts parts, int64_t M, int64_t N, int64_t K) {
  Sampler sampler(9);
  const auto x = sampler.Normal<T>({M, K}), w = sampler.Normal<T>({N, K}), bias = sampler.Normal<T>({N}),
             scale = sampler.Normal<T>({N}), residual = sampler.Normal<T>({M, N + 2});
  auto y = residual.Clone();
  const View<T> out(y.data(), {M, N}, {N + 2, 1});
  Epilogue<T> epilogue{.bias = parts.bias ? bias.data() : nullptr,
                       .activation = activation,
                       .scale = parts.scale ? scale.data() : nullptr,
                       .residual = parts.residual ? (parts.in_place ? y.data() : residual.data()) : nullptr,
                       .residual_stride = N + 2};
  Gemm<T>(x, PackedMatrix<T>(w.view()), epilogue, out);
  const auto x64 = Cast<double>(x), w64 = Cast<double>(w);
  std::vector<double> exact(M * N), magnitude(M * N);
  reference::MatMul(x64.data(), w64.data(), M, N, K, exact.data(), magnitude.data());
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t n = 0; n < N; ++n) {
      const double in = exact[m * N + n] + (parts.bias ? bias[n] : 0);
      // No activation here is steeper than 1.2.
      double tolerance =
          1.2 * DotTolerance<T>(K + 1, magnitude[m * N + n] + std::abs(in)) + 4 * UnitRoundoff<T>() * std::abs(in);
      double value = reference::Activate(activation, in);
      if (parts.scale) value *= scale[n], tolerance *= std::abs(scale[n]) + 1e-3;
      if (parts.residual) value += residual[m * (N + 2) + n];
      tolerance += 2 * UnitRoundoff<T>() * std::abs(value);
      ASSERT_NEAR(out.row(m)[n], value, tolerance) << "activation " << static_cast<int>(activation);
    }
  }
}

TEST_P(GemmTest, EpilogueOptions) {
  for (const Activation activation :
       {Activation::kNone, Activation::kGelu, Activation::kGeluTanh, Activation::kQuickGelu, Activation::kRelu,
        Activation::kSilu, Activation::kTanh}) {
    for (int bits = 0; bits < 16; ++bits) {
      const EpilogueParts parts{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0};
      CheckEpilogue<float>(activation, parts, 9, 37, 40);
      CheckEpilogue<double>(activation, parts, 9, 37, 40);
    }
    CheckEpilogue<float>(activation, {true, true, true, true}, 40, 70, 900);  // several tiles, and blocks of depth
  }
}

// The heads of [M, H, E] lie apart, and E is no multiple of a vector.
template <typename T>
void CheckHeads(int64_t M, int64_t H, int64_t E, int64_t K) {
  Sampler sampler(11);
  const auto x = sampler.Normal<T>({M, K}), w = sampler.Normal<T>({H * E, K}), bias = sampler.Normal<T>({H * E});
  const PackedMatrix<T> packed(w.view());
  const Epilogue<T> epilogue{.bias = bias.data()};
  Tensor<T> flat({M, H * E}), heads({H, M + 1, E});
  for (T& value : heads.span()) value = 77;
  Gemm<T>(x, packed, epilogue, flat);
  Gemm<T>(x, packed, epilogue, View<T>(heads.data(), {M, H, E}, {E, (M + 1) * E, 1}));
  for (int64_t h = 0; h < H; ++h) {
    for (int64_t e = 0; e < E; ++e) {
      for (int64_t m = 0; m < M; ++m) ASSERT_EQ(*heads.view().at(h, m, e), *flat.view().at(m, h * E + e));
      ASSERT_EQ(*heads.view().at(h, M, e), 77) << "wrote past a head";
    }
  }
}

TEST_P(GemmTest, OutputsInHeads) {
  for (const int64_t E : {1, 3, 8, 16, 20, 64, 72}) {
    CheckHeads<float>(19, 5, E, 70);
    CheckHeads<double>(19, 5, E, 70);
  }
}

// The same bits as of rows that are copied; the chunks lie apart.
template <typename T>
void CheckChunks(int64_t M, int64_t N, int64_t chunks) {
  Sampler sampler(13);
  const int64_t K = chunks * kRowChunk;
  const auto x = sampler.Normal<T>({M, K}), w = sampler.Normal<T>({N, K}), bias = sampler.Normal<T>({N});
  Tensor<T> apart({chunks, M + 1, kRowChunk}), expected({M, N}), y({M, N});
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t k = 0; k < K; ++k) *apart.view().at(k / kRowChunk, m, k % kRowChunk) = *x.view().at(m, k);
  }
  const PackedMatrix<T> packed(w.view());
  const Epilogue<T> epilogue{.bias = bias.data(), .activation = Activation::kGelu};
  // First, where the thread may have no scratch memory for a copy.
  Gemm<T>(View<const T>(apart.data(), {M, chunks, kRowChunk}, {kRowChunk, (M + 1) * kRowChunk, 1}), packed, epilogue,
          y);
  Gemm<T>(x, packed, epilogue, expected);
  for (int64_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], expected[i]) << "M " << M << " N " << N << " at " << i;
}

TEST_P(GemmTest, RowsInChunks) {
  std::thread(CheckChunks<float>, 197, 70, 14).join();  // whose scratch memory no product has grown
  for (const int64_t M : {1, 5, 33, 197}) {
    for (const int64_t chunks : {1, 3, 14}) {
      CheckChunks<float>(M, 70, chunks);
      CheckChunks<double>(M, 9, chunks);
    }
  }
}

TEST_P(GemmTest, RowsInChunksAreRefusedWhereTheyAreNotRead) {
  constexpr int64_t M = 3, K = 2 * kRowChunk;
  const Tensor<float> x({2, M, kRowChunk}), w({5, K});
  Tensor<float> y({M, 5});
  const View<const float> chunks(x.data(), {M, 2, kRowChunk}, {kRowChunk, M * kRowChunk, 1});
  const PackedMatrix<float> packed(w.view());
  EXPECT_NO_THROW(Gemm<float>(chunks, packed, {}, y));
  EXPECT_THROW(Gemm<float>(chunks, packed, {}, y, {1e-6f}), Error);
  EXPECT_THROW(Gemm<float>(chunks, PackedMatrix<float>(w.view(), Precision::kInt8), {}, y), Error);
  EXPECT_THROW(Gemm<float>(x.view().reshape({M, 2, kRowChunk}), packed, {}, y), Error);  // rows are not neighbours
  EXPECT_THROW(Gemm<float>(View<const float>(x.data(), {M, 2, kRowChunk}, {kRowChunk, 0, 1}), packed, {}, y), Error);
  EXPECT_THROW(Gemm<float>(chunks.slice(1, 0, 1), packed, {}, y), Error);
  EXPECT_THROW(Gemm<float>(x.view().reshape({M, kRowChunk, 2}), packed, {}, y), Error);
}

// It is only a hint: the memory may be gone.
TEST_P(GemmTest, WhatComesNextChangesNoResult) {
  Sampler sampler(11);
  const Tensor<float> x = sampler.Normal<float>({500, 64}), w = sampler.Normal<float>({130, 64});
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16, Precision::kInt8}) {
    PackedMatrix<float> packed(w.view(), precision);
    Tensor<float> expected({500, 130}), y({500, 130});
    Gemm<float>(x, packed, {}, expected);
    {
      const PackedMatrix<float> one_panel(w.view().slice(0, 0, 2), precision);
      const int64_t floats = one_panel.memory().size(), bytes = one_panel.low().groups.size();
      packed.set_next(one_panel);
      EXPECT_EQ(packed.next().count * 64, precision == Precision::kFloat32 ? floats * 4 : bytes);
    }
    Gemm<float>(x, packed, {}, y);
    EXPECT_TRUE(std::equal(y.span().begin(), y.span().end(), expected.span().begin()));
  }
}

TEST_P(GemmTest, WeightsPackedInAPoolAreTheSame) {
  Sampler sampler(13);
  const Tensor<float> x = sampler.Normal<float>({40, 67}), w = sampler.Normal<float>({130, 67});
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16, Precision::kInt8}) {
    TensorPool pool;
    const Tensor<float> before = pool.New<float>({16});
    const PackedMatrix<float> alone(w.view(), precision), packed(w.view(), Packing(precision, &pool));
    const Tensor<float> after = pool.New<float>({16});
    const float* const panels = precision == Precision::kFloat32
                                    ? packed.memory().data()
                                    : reinterpret_cast<const float*>(packed.low().groups.data());
    EXPECT_TRUE(before.data() < panels && panels < after.data());
    Tensor<float> expected({40, 130}), y({40, 130});
    Gemm<float>(x, alone, {}, expected);
    Gemm<float>(x, packed, {}, y);
    EXPECT_TRUE(std::equal(y.span().begin(), y.span().end(), expected.span().begin()));
  }
}

TEST_P(GemmTest, NoResidualIsAddedToHeads) {
  Tensor<float> x({2, 4}), w({6, 4}), y({2, 6});
  EXPECT_THROW(Gemm<float>(x, PackedMatrix<float>(w.view()), {.residual = y.data(), .residual_stride = 6},
                           y.view().reshape({2, 2, 3})),
               Error);
}

// y = residual + scale · (activation(g) · v) with g and v products of their own.
template <typename T>
void CheckGate(Gate gate, Activation activation, int64_t M, int64_t N, int64_t K) {
  Sampler sampler(12);
  const auto x = sampler.Normal<T>({M, K}), w = sampler.Normal<T>({2 * N, K}), bias = sampler.Normal<T>({2 * N}),
             scale = sampler.Normal<T>({N}), residual = sampler.Normal<T>({M, N});
  auto y = residual.Clone();
  Tensor<T> both({M, 2 * N});
  Gemm<T>(x, PackedMatrix<T>(w.view()), {.bias = bias.data()}, both);
  Gemm<T>(x, PackedMatrix<T>(w.view(), gate),
          {.bias = bias.data(),
           .activation = activation,
           .scale = scale.data(),
           .residual = y.data(),
           .residual_stride = N},
          y);
  const int64_t gate_at = gate == Gate::kFirst ? 0 : N;
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t n = 0; n < N; ++n) {
      T activated = 0;
      Activate(activation, both.view().at(m, gate_at + n), &activated, 1);
      const T value = activated * *both.view().at(m, N - gate_at + n) * scale[n];
      const T exact = residual[m * N + n] + value;
      ASSERT_NEAR(*y.view().at(m, n), exact, 4 * UnitRoundoff<T>() * (std::abs(value) + std::abs(exact)));
    }
  }
}

TEST_P(GemmTest, Gates) {
  for (const Gate gate : {Gate::kFirst, Gate::kLast}) {
    for (const int64_t N : {1, 7, 16, 33, 100}) {
      CheckGate<float>(gate, Activation::kSilu, 9, N, 70);
      CheckGate<double>(gate, Activation::kGelu, 9, N, 70);
    }
    CheckGate<float>(gate, Activation::kSilu, 40, 33, 900);  // several tiles, and blocks of depth
  }
  const Tensor<float> odd({3, 4});
  EXPECT_THROW(PackedMatrix<float>(odd.view(), Gate::kFirst), Error);
}

// The prologue against LayerNorm followed by the product: the same numbers enter the same chains.
template <typename T>
void CheckPrologue(NormKind kind, int64_t M, int64_t N, int64_t K) {
  Sampler sampler(13);
  const auto x = sampler.Normal<T>({M, K}, 3, 2), w = sampler.Normal<T>({N, K});
  const NormRule<T> rule(static_cast<T>(1e-6), kind);
  Tensor<T> normed({M, K}), expected({M, N}), y({M, N});
  NormRows<T>(x.data(), K, M, K, nullptr, nullptr, rule, normed.data(), K);
  const PackedMatrix<T> packed(w.view());
  Gemm<T>(normed, packed, {}, expected);
  Gemm<T>(x, packed, {}, y, {rule});
  for (int64_t i = 0; i < M * N; ++i) ASSERT_EQ(y[i], expected[i]);
}

TEST_P(GemmTest, NormalisesRowsOnTheWayIn) {
  for (const int64_t K : {1, 5, 64, 70, 900}) {
    CheckPrologue<float>(NormKind::kLayer, 37, 40, K);
    CheckPrologue<float>(NormKind::kRms, 37, 40, K);
    CheckPrologue<double>(NormKind::kLayer, 5, 40, K);
  }
}

TEST_P(GemmTest, ARowDoesNotDependOnOthersOrOnThreads) {
  constexpr int64_t N = 150, K = 700, M = 700;
  Sampler sampler(5);
  const auto x = sampler.Normal<float>({M, K}), w = sampler.Normal<float>({N, K}), bias = sampler.Normal<float>({N});
  const PackedMatrix<float> packed(w.view());
  const Epilogue<float> epilogue{.bias = bias.data(), .activation = Activation::kGelu};
  auto whole = Tensor<float>({M, N});
  SetNumThreads(1);
  Gemm<float>(x, packed, epilogue, whole);
  for (const int threads : {1, 2, 3, 7, 64}) {
    SetNumThreads(threads);
    for (const int64_t rows : {int64_t{1}, int64_t{2}, int64_t{5}, int64_t{13}, int64_t{197}, M}) {
      for (const int64_t begin : {int64_t{0}, int64_t{3}, M - rows}) {
        if (begin + rows > M) continue;
        auto part = Tensor<float>({rows, N});
        Gemm<float>(View<const float>(x.data() + begin * K, {rows, K}), packed, epilogue, part);
        for (int64_t i = 0; i < rows * N; ++i) {
          ASSERT_EQ(part[i], whole[begin * N + i]) << threads << " threads, rows " << begin << " + " << rows;
        }
      }
    }
  }
}

TEST_P(GemmTest, EmptyShapesAndNoDepth) {
  Tensor<float> x({0, 5}), w({3, 5}), y({0, 3});
  Gemm<float>(x, PackedMatrix<float>(w.view()), {}, y);
  Tensor<float> no_depth({2, 0}), no_weights({3, 0}), out({2, 3}), bias({3});
  bias[1] = 4;
  Gemm<float>(no_depth, PackedMatrix<float>(no_weights.view()), {.bias = bias.data()}, out);
  EXPECT_EQ(out[1], 4);
  EXPECT_EQ(out[5], 0);
}

TEST_P(GemmTest, NaNStaysInItsRow) {
  Tensor<float> x({20, 40}), y({20, 50});
  const auto w = Sampler(3).Normal<float>({50, 40});
  x[7 * 40 + 3] = std::numeric_limits<float>::quiet_NaN();
  Gemm<float>(x, PackedMatrix<float>(w.view()), {}, y);
  for (int64_t m = 0; m < 20; ++m) {
    for (int64_t n = 0; n < 50; ++n) ASSERT_EQ(std::isnan(y[m * 50 + n]), m == 7);
  }
}

TEST_P(GemmTest, WrongShapesAreRefused) {
  Tensor<float> x({2, 4}), w({3, 5}), y({2, 3});
  const PackedMatrix<float> packed(w.view());
  EXPECT_THROW(Gemm<float>(x, packed, {}, y), Error);
  Tensor<float> x5({2, 5}), y4({2, 4});
  EXPECT_THROW(Gemm<float>(x5, packed, {}, y4), Error);
  EXPECT_THROW(PackedMatrix<float>(View<const float>(w.data(), {15})), Error);
}

}  // namespace
}  // namespace qkv::simd
