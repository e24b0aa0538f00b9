// Products in bfloat16 and int8 against the double reference. The bounds are those of the roundings that the formats
// prescribe, operand by operand.
#include "qkv/simd/gemm/gemm_low.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "qkv/core/dtype.h"
#include "qkv/core/parallel.h"
#include "qkv/simd/gemm/gemm.h"
#include "qkv/simd/rows/reference.h"
#include "tests/simd/software_amx.h"
#include "tests/support/isas.h"
#include "tests/support/sampler.h"
#include "tests/support/threads.h"
#include "tests/support/tolerance.h"

namespace qkv::simd {
namespace {

constexpr Precision kLow[] = {Precision::kBfloat16, Precision::kInt8};
constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();

class GemmLowTest : private SoftwareAmx, public IsaTest {
 protected:
  RestoreThreads restore_;
};
INSTANTIATE_TEST_SUITE_P(Isas, GemmLowTest, testing::ValuesIn(ParametersWithAmx()), IsaTestName);

// Σ of n errors that are each at most `each`: their sum at worst, and if they are of random sign and evenly spread
// (variance each²/3) six standard deviations.
struct ErrorBound {
  double worst = 0, variance = 0;
  void Add(double each) { worst += each, variance += each * each / 3; }
  double value() const { return std::min(worst, 6 * std::sqrt(variance)); }
};

// What a row of x or of W loses in int8: half a step at each element.
double HalfStep(const double* row, int64_t K, int levels, bool symmetric) {
  double low = row[0], high = row[0];
  for (int64_t k = 0; k < K; ++k) low = std::min(low, row[k]), high = std::max(high, row[k]);
  return (symmetric ? std::max(-low, high) : high - low) / levels / 2;
}

// How far the product of one row of x and one of W may be from the exact one.
double ProductTolerance(Precision precision, const double* x, const double* w, int64_t K) {
  const internal::TileKernel& kernel = internal::SelectTileKernel(precision);
  ErrorBound bound;
  double magnitude = 0;
  if (precision == Precision::kBfloat16) {
    constexpr double kRoundoff = 0x1p-8;
    for (int64_t k = 0; k < K; ++k) {
      const double product = std::abs(x[k] * w[k]);
      bound.Add(kRoundoff * product);
      if (Describe(precision).native) bound.Add(kRoundoff * (1 + kRoundoff) * product);
      magnitude += product;
    }
    return bound.value() + DotTolerance<float>(K, magnitude * (1 + 3 * kRoundoff));
  }
  const double half_x = HalfStep(x, K, kernel.activation_max, false), half_w = HalfStep(w, K, kernel.weight_max, true);
  double low = x[0], sum = 0;
  for (int64_t k = 0; k < K; ++k) {
    bound.Add(half_x * std::abs(w[k]));
    bound.Add(half_w * (std::abs(x[k]) + half_x));
    low = std::min(low, x[k]), sum += std::abs(w[k]) + half_w;
    magnitude += (2 * half_x * kernel.activation_max) * (std::abs(w[k]) + half_w);
  }
  // The levels' sum is exact; it and the offset's share are rounded a few times as they become floats, and levels that
  // rounding moves across a step's middle err by a little more than half.
  return bound.value() + 8 * UnitRoundoff<float>() * (magnitude + std::abs(low) * sum) + 1e-37 * sum;
}

// The product against the double one; with eps, of rows normalised on the way in.
void ExpectProduct(Precision precision, const Tensor<float>& x, const Tensor<float>& w, std::optional<float> eps = {}) {
  const int64_t M = x.dim(0), N = w.dim(0), K = x.dim(1);
  Tensor<float> y({M, N});
  Gemm<float>(x, PackedMatrix<float>(w.view(), precision), {}, y, {eps});
  auto x64 = Cast<double>(x);
  const auto w64 = Cast<double>(w);
  if (eps) {
    Tensor<float> moments({M, 2});
    RowMoments<float>(x.data(), K, M, K, *eps, moments.data());
    for (int64_t i = 0; i < M * K; ++i) x64[i] = (x64[i] - moments[i / K * 2]) * moments[i / K * 2 + 1];
  }
  std::vector<double> exact(M * N), magnitude(M * N);
  reference::MatMul(x64.data(), w64.data(), M, N, K, exact.data(), magnitude.data());
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t n = 0; n < N; ++n) {
      ASSERT_NEAR(y[m * N + n], exact[m * N + n],
                  ProductTolerance(precision, x64.data() + m * K, w64.data() + n * K, K))
          << Describe(precision).kernel << " M " << M << " N " << N << " K " << K << " at " << m << ", " << n;
    }
  }
}

TEST_P(GemmLowTest, OddShapes) {
  for (const Precision precision : kLow) {
    for (int64_t M = 1; M <= 40; M += M < 8 ? 1 : 5) {
      for (const int64_t N : {1, 7, 16, 33, 65}) {
        for (const int64_t K : {1, 2, 3, 31, 64, 65, 130, 200}) {
          Sampler sampler(static_cast<uint64_t>(M * 1000003 + N * 1009 + K));
          const auto x = sampler.Normal<float>({M, K}, 0.3), w = sampler.Normal<float>({N, K});
          ExpectProduct(precision, x, w);
        }
      }
    }
  }
}

TEST_P(GemmLowTest, BlocksOfRowsAndDepth) {
  for (const Precision precision : kLow) {
    Sampler sampler(1);
    const auto check = [&](int64_t M, int64_t N, int64_t K) {
      ExpectProduct(precision, sampler.Normal<float>({M, K}, -1), sampler.Normal<float>({N, K}));
    };
    check(197, 100, 768);
    check(300, 70, 333);
    check(3, 300, 3100);
    check(2, 20, 7000);  // several blocks of depth
    check(1100, 9, 65);  // several slabs
  }
}

// Integers that all formats hold: here the order of the elements is everything, and nothing is rounded.
TEST_P(GemmLowTest, WholeNumbersAreExact) {
  constexpr int64_t M = 19, N = 50, K = 150;
  Rng rng(3);
  Tensor<float> x({M, K}), w({N, K}), y({M, N});
  for (const Precision precision : kLow) {
    const internal::TileKernel& kernel = internal::SelectTileKernel(precision);
    const int x_max = precision == Precision::kInt8 ? kernel.activation_max : 255;
    const int w_max = precision == Precision::kInt8 ? kernel.weight_max : 127;
    for (float& value : x.span()) value = static_cast<float>(rng.Next() % (x_max + 1));
    for (float& value : w.span()) value = static_cast<float>(static_cast<int>(rng.Next() % (2 * w_max + 1)) - w_max);
    for (int64_t m = 0; m < M; ++m) x[m * K] = 0, x[m * K + 1] = static_cast<float>(x_max);
    for (int64_t n = 0; n < N; ++n) w[n * K + n] = static_cast<float>(w_max);
    Gemm<float>(x, PackedMatrix<float>(w.view(), precision), {}, y);
    for (int64_t m = 0; m < M; ++m) {
      for (int64_t n = 0; n < N; ++n) {
        double exact = 0;
        for (int64_t k = 0; k < K; ++k) exact += static_cast<double>(x[m * K + k]) * w[n * K + k];
        ASSERT_EQ(y[m * N + n], exact) << Describe(precision).kernel;
      }
    }
  }
}

// Every pair of levels at its greatest, of one sign and of both: sums of int16 would saturate here.
TEST_P(GemmLowTest, GreatestLevelsDoNotSaturate) {
  constexpr int64_t N = 40, K = 515;
  Tensor<float> x({7, K}), w({N, K}), y({7, N});
  for (const int period : {1, 2, 3, 4, 8}) {
    for (int64_t i = 0; i < 7 * K; ++i) x[i] = i % K == 0 ? 0 : 1;  // the first sets the range
    for (int64_t i = 0; i < N * K; ++i) w[i] = i % K / period % 2 == 0 || period == 1 ? -1 : 1;
    for (int64_t n = 0; n < N; n += 3) {
      for (int64_t k = 0; k < K; ++k) w[n * K + k] *= -1;
    }
    Gemm<float>(x, PackedMatrix<float>(w.view(), Precision::kInt8), {}, y);
    for (int64_t i = 0; i < 7 * N; ++i) {
      double exact = 0;
      for (int64_t k = 1; k < K; ++k) exact += w[i % N * K + k];
      ASSERT_NEAR(y[i], exact, 4 * UnitRoundoff<float>() * K) << period;
    }
  }
}

// The kernels themselves, on all levels that they may be given; against the same sums in int64.
void ExpectTile(const internal::TileKernel& kernel, int rows, int64_t depth) {
  Rng rng(static_cast<uint64_t>(rows * 1000 + depth));
  const bool extreme = depth % 128 == 0;
  const auto level = [&](int low, int high) {
    return extreme ? (rng.Next() % 2 ? low : high)
                   : low + static_cast<int>(rng.Next() % static_cast<uint64_t>(high - low + 1));
  };
  Tensor<uint8_t> a({rows * depth}), b({depth * kernel.panel});
  Tensor<int32_t> c({rows * kernel.panel}), before({rows * kernel.panel});
  for (uint8_t& value : a.span())
    value = static_cast<uint8_t>(level(extreme ? kernel.activation_max - 1 : 0, kernel.activation_max));
  for (uint8_t& value : b.span()) value = static_cast<uint8_t>(level(-kernel.weight_max, kernel.weight_max));
  for (int32_t& value : before.span()) value = static_cast<int32_t>(rng.Next() % 100000) - 50000;
  for (const bool first : {true, false}) {
    std::copy(before.span().begin(), before.span().end(), c.data());
    kernel.multiply(rows, a.data(), b.data(), depth, first, c.data(), reinterpret_cast<const char*>(b.data()), 3);
    for (int r = 0; r < rows; ++r) {
      for (int n = 0; n < kernel.panel; ++n) {
        int64_t sum = first ? 0 : before[r * kernel.panel + n];
        for (int64_t k = 0; k < depth; ++k) {
          sum += a[(k / 64 * rows + r) * 64 + k % 64] * static_cast<int8_t>(b[(k / 4 * kernel.panel + n) * 4 + k % 4]);
        }
        ASSERT_EQ(c[r * kernel.panel + n], sum) << kernel.name << ": " << rows << " rows, depth " << depth;
      }
    }
  }
}

// The kernels through libhwy are there under every instruction set, chosen or not. (The others: tile_kernel_test.cc.)
TEST_P(GemmLowTest, PairsAreExact) {
  const internal::TileKernel& kernel = internal::Int8Pairs();
  for (int rows = 1; rows <= kernel.rows; ++rows) {
    for (const int64_t depth : {64, 128, 320, 1024}) ExpectTile(kernel, rows, depth);
  }
}

TEST_P(GemmLowTest, WideningIsExactOnSmallNumbers) {
  const internal::TileKernel& kernel = internal::Bf16Widened();
  Rng rng(4);
  const auto small = [&] { return static_cast<float>(static_cast<int>(rng.Next() % 255) - 127); };
  for (int rows = 1; rows <= kernel.rows; ++rows) {
    constexpr int64_t kDepth = 80;
    Tensor<float> a({rows * kDepth}), c({rows * kernel.panel});
    Tensor<BFloat16> b({kDepth * kernel.panel});
    for (float& value : a.span()) value = small();
    for (BFloat16& value : b.span()) value = ToBFloat16(small());
    for (float& value : c.span()) value = 1000;
    kernel.multiply(rows, a.data(), b.data(), kDepth, false, c.data(), nullptr, 0);
    for (int r = 0; r < rows; ++r) {
      for (int n = 0; n < kernel.panel; ++n) {
        float sum = 1000;
        for (int64_t k = 0; k < kDepth; ++k) {
          sum += a[(k / 16 * rows + r) * 16 + k % 16] * ToFloat(b[(k / 2 * kernel.panel + n) * 2 + k % 2]);
        }
        ASSERT_EQ(c[r * kernel.panel + n], sum);
      }
    }
  }
}

TEST_P(GemmLowTest, NormalisesRowsOnTheWayIn) {
  for (const Precision precision : kLow) {
    for (const int64_t K : {5, 64, 70, 900}) {
      Sampler sampler(13);
      const auto x = sampler.Normal<float>({37, K}, 3, 2), w = sampler.Normal<float>({40, K});
      ExpectProduct(precision, x, w, 1e-6f);
    }
  }
}

// The epilogue in double on what the bare product gave.
void CheckEpilogue(Precision precision, Activation activation, bool strided) {
  constexpr int64_t M = 17, N = 37, K = 70;
  const int64_t padding = strided ? 3 : 0;
  Sampler sampler(9);
  const auto x = sampler.Normal<float>({M, K + padding}), w = sampler.Normal<float>({N, K}),
             bias = sampler.Normal<float>({N}), scale = sampler.Normal<float>({N}),
             residual = sampler.Normal<float>({M, N + padding});
  const View<const float> in(x.data(), {M, K}, {K + padding, 1});
  Tensor<float> bare({M, N});
  auto y = residual.Clone();
  const PackedMatrix<float> packed(w.view(), precision);
  Gemm<float>(in, packed, {}, bare);
  Gemm<float>(in, packed,
              {.bias = bias.data(),
               .activation = activation,
               .scale = scale.data(),
               .residual = y.data(),
               .residual_stride = N + padding},
              View<float>(y.data(), {M, N}, {N + padding, 1}));
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t n = 0; n < N; ++n) {
      const double before = static_cast<double>(bare[m * N + n]) + bias[n];
      const double value = reference::Activate(activation, before) * scale[n];
      const double exact = value + residual[m * (N + padding) + n];
      // The sum's rounding through an activation of slope 1.2 at most, the activation's own, and two more.
      const double tolerance = UnitRoundoff<float>() * (6 * std::abs(before * scale[n]) + 2 * std::abs(exact));
      ASSERT_NEAR(y[m * (N + padding) + n], exact, tolerance) << static_cast<int>(activation);
    }
    for (int64_t n = N; n < N + padding; ++n) {
      ASSERT_EQ(y[m * (N + padding) + n], residual[m * (N + padding) + n]) << "wrote past a row";
    }
  }
}

TEST_P(GemmLowTest, EpilogueAndStrides) {
  for (const Precision precision : kLow) {
    for (const Activation activation :
         {Activation::kNone, Activation::kGelu, Activation::kGeluTanh, Activation::kQuickGelu, Activation::kRelu,
          Activation::kSilu, Activation::kTanh}) {
      CheckEpilogue(precision, activation, false);
      CheckEpilogue(precision, activation, true);
    }
  }
}

// A gate's and its values' columns lie in other panels than without a gate, and are the same numbers.
void CheckGatesAndHeads(int64_t M, int64_t H, int64_t K) {
  constexpr int64_t E = 20;
  const int64_t N = H * E;
  Sampler sampler(12);
  const auto x = sampler.Normal<float>({M, K}), w = sampler.Normal<float>({2 * N, K});
  for (const Precision precision : kLow) {
    Tensor<float> both({M, 2 * N}), heads({H, M, E});
    Gemm<float>(x, PackedMatrix<float>(w.view(), precision), {}, both);
    for (const Gate gate : {Gate::kFirst, Gate::kLast}) {
      const int64_t gate_at = gate == Gate::kFirst ? 0 : N;
      Gemm<float>(x, PackedMatrix<float>(w.view(), gate, precision), {.activation = Activation::kRelu},
                  View<float>(heads.data(), {M, H, E}, {E, M * E, 1}));
      for (int64_t m = 0; m < M; ++m) {
        for (int64_t n = 0; n < N; ++n) {
          const float expected = std::max(*both.view().at(m, gate_at + n), 0.0f) * *both.view().at(m, N - gate_at + n);
          ASSERT_EQ(*heads.view().at(n / E, m, n % E), expected);
        }
      }
    }
  }
}

TEST_P(GemmLowTest, GatesAndHeads) {
  CheckGatesAndHeads(9, 5, 70);
  CheckGatesAndHeads(50, 2, 3200);  // several tiles, and blocks of depth
}

// Rows 2 and 5 are not numbers; nobody else may notice, and they may not pass for numbers.
TEST_P(GemmLowTest, NotANumberStaysAndStaysInItsRow) {
  for (const Precision precision : kLow) {
    for (const float strange : {kNaN, -kNaN, kInfinity, -kInfinity}) {
      for (const int64_t at : {0, 3, 64, 69}) {
        auto x = Sampler(2).Normal<float>({9, 70});
        const auto w = Sampler(3).Normal<float>({50, 70});
        Tensor<float> y({9, 50}), clean({9, 50});
        const PackedMatrix<float> packed(w.view(), precision);
        Gemm<float>(x, packed, {}, clean);
        x[2 * 70 + at] = x[5 * 70 + at] = strange;
        Gemm<float>(x, packed, {}, y);
        for (int64_t i = 0; i < 9 * 50; ++i) {
          if (i / 50 != 2 && i / 50 != 5) {
            ASSERT_EQ(y[i], clean[i]);
          } else if (std::isnan(strange)) {
            ASSERT_TRUE(std::isnan(y[i]));
          } else {
            ASSERT_FALSE(std::isfinite(y[i]));
          }
        }
      }
    }
  }
}

TEST_P(GemmLowTest, NotANumberInTheWeightsStaysInItsColumn) {
  auto w = Sampler(3).Normal<float>({50, 70});
  w[7 * 70 + 3] = kNaN;
  w[20 * 70 + 69] = kInfinity;
  const auto x = Sampler(2).Normal<float>({9, 70});
  Tensor<float> y({9, 50});
  for (const Precision precision : kLow) {
    Gemm<float>(x, PackedMatrix<float>(w.view(), precision), {}, y);
    for (int64_t i = 0; i < 9 * 50; ++i) ASSERT_EQ(std::isfinite(y[i]), i % 50 != 7 && i % 50 != 20);
  }
}

// All zero, all the same, a range too narrow to divide by, a narrow one, and one too wide for a float.
TEST_P(GemmLowTest, RowsWithoutARange) {
  constexpr int64_t K = 70, N = 20;
  const auto w = Sampler(3).Normal<float>({N, K});
  const auto w64 = Cast<double>(w);
  Tensor<float> x({6, K}), y({6, N});
  for (int64_t k = 0; k < K; ++k) {
    x[0 * K + k] = 0, x[1 * K + k] = -3.7f, x[2 * K + k] = 1e30f, x[3 * K + k] = k == 5 ? 1e-42f : 0;
    x[4 * K + k] = k % 2 == 0 ? 3e38f : -3e38f, x[5 * K + k] = 1e-20f * static_cast<float>(k);
  }
  for (const Precision precision : kLow) {
    Gemm<float>(x, PackedMatrix<float>(w.view(), precision), {}, y);
    for (int64_t m = 0; m < 6; ++m) {
      for (int64_t n = 0; n < N; ++n) {
        if (m == 4) {  // must not pass for a number where its range is not one
          ASSERT_TRUE(precision == Precision::kBfloat16 || std::isnan(y[m * N + n]));
          continue;
        }
        std::vector<double> row(x.data() + m * K, x.data() + (m + 1) * K);
        double exact = 0;
        for (int64_t k = 0; k < K; ++k) exact += row[k] * w[n * K + k];
        ASSERT_NEAR(y[m * N + n], exact, ProductTolerance(precision, row.data(), w64.data() + n * K, K)) << m;
        ASSERT_TRUE(m != 0 || y[n] == 0);
      }
    }
  }
}

TEST_P(GemmLowTest, ARowDoesNotDependOnOthersOrOnThreads) {
  constexpr int64_t N = 150, K = 700, M = 1300;
  Sampler sampler(5);
  const auto x = sampler.Normal<float>({M, K}), w = sampler.Normal<float>({N, K}), bias = sampler.Normal<float>({N});
  const Epilogue<float> epilogue{.bias = bias.data(), .activation = Activation::kGelu};
  for (const Precision precision : kLow) {
    const PackedMatrix<float> packed(w.view(), precision);
    auto whole = Tensor<float>({M, N});
    SetNumThreads(1);
    Gemm<float>(x, packed, epilogue, whole);
    for (const int threads : {1, 2, 3, 64}) {
      SetNumThreads(threads);
      for (const int64_t rows : {int64_t{1}, int64_t{5}, int64_t{13}, int64_t{197}, M}) {
        for (const int64_t begin : {int64_t{0}, int64_t{3}, M - rows}) {
          if (begin + rows > M) continue;
          auto part = Tensor<float>({rows, N});
          Gemm<float>(View<const float>(x.data() + begin * K, {rows, K}), packed, epilogue, part);
          ASSERT_EQ(std::memcmp(part.data(), whole.data() + begin * N, sizeof(float) * static_cast<size_t>(rows * N)),
                    0)
              << threads << " threads, rows " << begin << " + " << rows;
        }
      }
    }
  }
}

TEST_P(GemmLowTest, EmptyShapesAndNoDepth) {
  for (const Precision precision : kLow) {
    Tensor<float> x({0, 5}), w({3, 5}), y({0, 3});
    Gemm<float>(x, PackedMatrix<float>(w.view(), precision), {}, y);
    Tensor<float> no_depth({2, 0}), no_weights({3, 0}), out({2, 3}), bias({3});
    bias[1] = 4;
    Gemm<float>(no_depth, PackedMatrix<float>(no_weights.view(), precision), {.bias = bias.data()}, out);
    EXPECT_EQ(out[1], 4);
    EXPECT_EQ(out[5], 0);
  }
}

TEST_P(GemmLowTest, TakesLessMemory) {
  const auto w = Sampler(1).Normal<float>({768, 768});
  const auto bytes = [&](Precision precision) { return PackedMatrix<float>(w.view(), precision).bytes(); };
  const int64_t whole = bytes(Precision::kFloat32);
  EXPECT_EQ(whole, 4 * 768 * 768);
  EXPECT_EQ(bytes(Precision::kBfloat16) * 2, whole);
  EXPECT_LE(bytes(Precision::kInt8) * 4, whole + 4 * 2 * 4 * 768);  // a scale and a sum for each output
}

TEST_P(GemmLowTest, WhatCannotBeIsRefused) {
  Tensor<float> w({3, 300000}), x({2, 5}), y({2, 3});
  EXPECT_THROW(PackedMatrix<float>(w.view(), Precision::kInt8), Error);
  EXPECT_THROW(Gemm<float>(x, PackedMatrix<float>(w.view(), Precision::kBfloat16), {}, y), Error);
  Tensor<double> w64({3, 5});
  EXPECT_THROW(PackedMatrix<double>(w64.view(), Precision::kInt8), Error);
}

// Which kernels compute, for each instruction set.
TEST_P(GemmLowTest, TheInstructionSetChoosesTheKernel) {
  const std::string_view int8 = Describe(Precision::kInt8).kernel, bf16 = Describe(Precision::kBfloat16).kernel;
  const Isa isa = GetParam().isa;
  const bool vnni = isa == Isa::kAvx512 && internal::HasAvx512Vnni();
  const bool dot = isa == Isa::kAvx512 && internal::Avx512Bf16IsFaster();
  EXPECT_EQ(int8, isa == Isa::kBaseline  ? "int16_pairs"
                  : isa == Isa::kAmx     ? "amx_int8"
                  : vnni                 ? "avx512_vnni"
                  : isa == Isa::kAvxVnni ? "avx_vnni"
                                         : "avx2_maddubs");
  EXPECT_EQ(bf16, isa == Isa::kAmx ? "amx_bf16" : dot ? "avx512_bf16" : "fp32");
  EXPECT_EQ(Describe(Precision::kBfloat16).native, bf16 != "fp32");
  EXPECT_TRUE(Describe(Precision::kInt8).native);
  EXPECT_TRUE(Describe(Precision::kFloat32).native);
}

TEST(GemmLow, WeightsOfAnotherInstructionSetAreRefused) {
  if (AvailableIsas().size() < 2) GTEST_SKIP();
  const Isa before = ActiveIsa();
  Tensor<float> w({3, 4}), x({2, 4}), y({2, 3});
  for (const Precision precision : kLow) {
    SetIsa(AvailableIsas()[0]);
    const PackedMatrix<float> packed(w.view(), precision);
    SetIsa(AvailableIsas()[1]);
    EXPECT_THROW(Gemm<float>(x, packed, {}, y), Error);
  }
  SetIsa(before);
}

}  // namespace
}  // namespace qkv::simd
