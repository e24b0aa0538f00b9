#include "qkv/simd/gemm/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "qkv/core/dtype.h"
#include "qkv/core/parallel.h"
#include "qkv/simd/rows/reference.h"
#include "tests/simd/software_amx.h"
#include "tests/support/isas.h"
#include "tests/support/sampler.h"
#include "tests/support/threads.h"
#include "tests/support/tolerance.h"

namespace qkv::simd {
namespace {

class MatMulTest : public IsaTest {
 protected:
  RestoreThreads restore_;
};
QKV_FOR_ALL_ISAS(MatMulTest);

class MatMulBf16Test : private SoftwareAmx, public MatMulTest {
 protected:
  const bool native_ = Describe(Precision::kBfloat16).native;
};
INSTANTIATE_TEST_SUITE_P(Isas, MatMulBf16Test, testing::ValuesIn(ParametersWithAmx()), IsaTestName);

// An operand [rows, columns] in one of the two orders, the dense axis `padding` shorter than the distance of its
// neighbours. What lies between is NaN: reading it as data would show.
template <typename T>
struct Operand {
  Operand(Sampler& sampler, int64_t rows, int64_t columns, bool transposed, int64_t padding)
      : memory(sampler.Normal<T>({transposed ? columns : rows, (transposed ? rows : columns) + padding})) {
    const int64_t outer = memory.dim(0), stride = memory.dim(1);
    for (int64_t i = 0; i < outer; ++i) {
      for (int64_t j = stride - padding; j < stride; ++j) memory[i * stride + j] = std::numeric_limits<T>::quiet_NaN();
    }
    const View<const T> dense(memory.data(), {outer, stride - padding}, {stride, 1});
    view = transposed ? Transposed(dense) : dense;
  }
  Tensor<T> memory;
  View<const T> view;
};

struct Case {
  int64_t M, N, K;
  bool a_transposed = false, b_transposed = false, bias = false, accumulate = false;
  int64_t padding = 0;
  Precision precision = Precision::kFloat32;
};

// What is multiplied: products of bfloat16 are exact in float, so that rounded operands need no further tolerance.
template <typename T>
double Rounded(T x, Precision precision) {
  if (sizeof(T) == 8 || precision == Precision::kFloat32 || !Describe(precision).native) return x;
  return ToFloat(ToBFloat16(static_cast<float>(x)));
}

template <typename T>
void CheckProduct(const Case& at) {
  const auto [M, N, K, a_transposed, b_transposed, with_bias, accumulate, padding, precision] = at;
  Sampler sampler(static_cast<uint64_t>(M * 1000003 + N * 1009 + K));
  const Operand<T> a(sampler, M, K, a_transposed, padding), b(sampler, K, N, b_transposed, padding);
  const auto bias = sampler.Normal<T>({N}), before = sampler.Normal<T>({M, N + padding});
  auto y = before.Clone();
  const View<T> c(y.data(), {M, N}, {N + padding, 1});
  if (with_bias) {
    MatMul<T>(a.view, b.view,
              {.bias = bias.data(), .residual = accumulate ? y.data() : nullptr, .residual_stride = N + padding}, c,
              precision);
  } else {
    MatMul<T>(a.view, b.view, c, accumulate, precision);
  }
  std::vector<double> a64(M * K), b64(N * K), exact(M * N), magnitude(M * N);
  for (int64_t k = 0; k < K; ++k) {
    for (int64_t m = 0; m < M; ++m) a64[m * K + k] = Rounded(*a.view.at(m, k), precision);
    for (int64_t n = 0; n < N; ++n) b64[n * K + k] = Rounded(*b.view.at(k, n), precision);
  }
  reference::MatMul(a64.data(), b64.data(), M, N, K, exact.data(), magnitude.data());
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t n = 0; n < N; ++n) {
      double sum = exact[m * N + n], size = magnitude[m * N + n];
      if (with_bias) sum += bias[n], size += std::abs(bias[n]);
      if (accumulate) sum += *before.view().at(m, n), size += std::abs(*before.view().at(m, n));
      ASSERT_NEAR(*c.at(m, n), sum, DotTolerance<T>(K + with_bias + accumulate, size))
          << "M " << M << " N " << N << " K " << K << " a " << a_transposed << " b " << b_transposed << " bias "
          << with_bias << " accumulate " << accumulate << " at " << m << ", " << n;
    }
    for (int64_t n = N; n < N + padding; ++n) ASSERT_EQ(*y.view().at(m, n), *before.view().at(m, n)) << "past a row";
  }
}

template <typename T>
void CheckAllOrders(Case at) {
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      at.a_transposed = a, at.b_transposed = b;
      CheckProduct<T>(at);
    }
  }
}

TEST_P(MatMulTest, OddShapesInEveryOrder) {
  for (const int64_t M : {1, 2, 7, 15, 16, 17, 33}) {
    for (const int64_t N : {1, 3, 8, 17, 32, 65}) {
      for (const int64_t K : {1, 2, 5, 64, 65, 131}) {
        CheckAllOrders<float>({.M = M, .N = N, .K = K, .padding = (M + N) % 3});
        CheckAllOrders<double>({.M = M, .N = N, .K = K, .padding = (N + K) % 3});
      }
    }
  }
}

TEST_P(MatMulTest, BlocksOfRowsAndDepth) {
  CheckAllOrders<float>({.M = 250, .N = 70, .K = 800, .padding = 1});
  CheckAllOrders<float>({.M = 19, .N = 300, .K = 1025});
  CheckAllOrders<double>({.M = 241, .N = 33, .K = 400});
}

// Deep enough for K to be split, by depths that are no multiples of anything.
TEST_P(MatMulTest, ManyRowsForFewGradients) {
  CheckAllOrders<float>({.M = 37, .N = 41, .K = 8320});
  CheckAllOrders<float>({.M = 5, .N = 70, .K = 3077, .padding = 3});
  CheckAllOrders<double>({.M = 20, .N = 9, .K = 4801});
}

// Tiles of every height, and K in whole steps of the tiles and not.
TEST_P(MatMulTest, TilesOfEveryHeight) {
  for (int64_t M = 1; M <= 30; ++M) {
    CheckAllOrders<float>({.M = M, .N = 64, .K = 70, .accumulate = true});
    CheckAllOrders<double>({.M = M, .N = 32, .K = 33, .bias = true});
  }
}

// As few columns as make threads share the rows, more blocks of rows than one.
TEST_P(MatMulTest, ManyRowsOfFewColumns) {
  for (const int threads : {1, 2, 3}) {
    SetNumThreads(threads);
    CheckAllOrders<float>({.M = 520, .N = 128, .K = 100, .bias = true});
    CheckAllOrders<float>({.M = 197, .N = 300, .K = 210, .accumulate = true, .padding = 5});
  }
}

TEST_P(MatMulTest, AccumulatesAndAddsABias) {
  for (const int64_t K : {0, 40, 3500}) {
    for (const bool bias : {false, true}) {
      for (const bool accumulate : {false, true}) {
        CheckAllOrders<float>({.M = 21, .N = 37, .K = K, .bias = bias, .accumulate = accumulate, .padding = 2});
        CheckAllOrders<double>({.M = 9, .N = 18, .K = K, .bias = bias, .accumulate = accumulate});
      }
    }
  }
}

// The three products of a linear layer, written as they are called, against sums written out.
TEST_P(MatMulTest, TheThreeProductsOfALinearLayer) {
  constexpr int64_t M = 30, I = 20, O = 50;
  Sampler sampler(3);
  const auto x = sampler.Normal<double>({M, I}), w = sampler.Normal<double>({O, I}),
             dy = sampler.Normal<double>({M, O});
  Tensor<double> y({M, O}), dx({M, I}), dw({O, I});
  MatMul<double>(x, Transposed(w.view()), y);
  MatMul<double>(dy, w, dx);
  MatMul<double>(Transposed(dy.view()), x, dw);
  std::vector<double> sums(M * O + M * I + O * I);
  double *const y_sum = sums.data(), *const dx_sum = y_sum + M * O, *const dw_sum = dx_sum + M * I;
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t o = 0; o < O; ++o) {
      for (int64_t i = 0; i < I; ++i) {
        y_sum[m * O + o] += x[m * I + i] * w[o * I + i];
        dx_sum[m * I + i] += dy[m * O + o] * w[o * I + i];
        dw_sum[o * I + i] += dy[m * O + o] * x[m * I + i];
      }
    }
  }
  constexpr double kTolerance = 1e-12;  // 50 terms of at most some 16: 50² · 16 · 2⁻⁵³
  for (int64_t i = 0; i < M * O; ++i) ASSERT_NEAR(y[i], y_sum[i], kTolerance);
  for (int64_t i = 0; i < M * I; ++i) ASSERT_NEAR(dx[i], dx_sum[i], kTolerance);
  for (int64_t i = 0; i < O * I; ++i) ASSERT_NEAR(dw[i], dw_sum[i], kTolerance);
}

// The packed product of the same operands has the same chains.
void CheckAgainstGemm(Precision precision, Precision packed_in) {
  Sampler sampler(4);
  const auto x = sampler.Normal<float>({50, 1100}), w = sampler.Normal<float>({90, 1100}),
             bias = sampler.Normal<float>({90});
  const Epilogue<float> epilogue{.bias = bias.data(), .activation = Activation::kGelu};
  Tensor<float> expected({50, 90}), y({50, 90});
  Gemm<float>(x, PackedMatrix<float>(w.view(), packed_in), epilogue, expected);
  MatMul<float>(x, Transposed(w.view()), epilogue, y, precision);
  for (int64_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], expected[i]);
}

TEST_P(MatMulTest, IsGemmOfPackedWeights) { CheckAgainstGemm(Precision::kFloat32, Precision::kFloat32); }

void CheckThreads(std::initializer_list<Case> cases, Precision precision) {
  for (const Case& at : cases) {
    for (const bool a_transposed : {false, true}) {
      Sampler sampler(5);
      const Operand<float> a(sampler, at.M, at.K, a_transposed, 0), b(sampler, at.K, at.N, !a_transposed, 0);
      Tensor<float> one({at.M, at.N}), many({at.M, at.N});
      SetNumThreads(1);
      MatMul<float>(a.view, b.view, one, false, precision);
      for (const int threads : {2, 5, 64}) {
        SetNumThreads(threads);
        MatMul<float>(a.view, b.view, many, false, precision);
        for (int64_t i = 0; i < one.size(); ++i) ASSERT_EQ(many[i], one[i]) << threads << " threads";
      }
    }
  }
}

TEST_P(MatMulTest, ResultsDoNotDependOnThreads) {
  CheckThreads({Case{700, 150, 700}, Case{70, 90, 9000}, Case{20, 400, 64}}, Precision::kFloat32);
}

TEST_P(MatMulTest, NaNStaysInItsRowAndColumn) {
  constexpr int64_t M = 20, N = 50;
  for (const int64_t K : {40, 3100}) {
    for (const bool transposed : {false, true}) {
      Sampler sampler(6);
      Operand<float> a(sampler, M, K, transposed, 0), b(sampler, K, N, transposed, 0);
      a.memory[transposed ? 3 * M + 7 : 7 * K + 3] = std::numeric_limits<float>::quiet_NaN();
      b.memory[transposed ? 49 * K + 5 : 5 * N + 49] = std::numeric_limits<float>::infinity();
      Tensor<float> c({M, N});
      MatMul<float>(a.view, b.view, c);
      for (int64_t m = 0; m < M; ++m) {
        for (int64_t n = 0; n < N; ++n) {
          ASSERT_EQ(std::isnan(c[m * N + n]), m == 7);
          ASSERT_EQ(std::isinf(c[m * N + n]), n == 49 && m != 7);
        }
      }
    }
  }
}

TEST_P(MatMulBf16Test, OddShapesInEveryOrder) {
  for (const int64_t M : {1, 2, 15, 16, 17, 33, 61}) {
    for (const int64_t N : {1, 15, 32, 65}) {
      for (const int64_t K : {1, 2, 31, 64, 65, 131}) {
        CheckAllOrders<float>({.M = M,
                               .N = N,
                               .K = K,
                               .bias = N % 2 == 0,
                               .accumulate = K % 2 == 0,
                               .padding = (M + N) % 3,
                               .precision = Precision::kBfloat16});
      }
    }
  }
}

// More than one slab of converted rows, block of depth, section of K.
TEST_P(MatMulBf16Test, BlocksOfRowsAndDepth) {
  for (const Case& at : {Case{250, 70, 300}, Case{1100, 9, 65}, Case{19, 40, 1700}, Case{37, 41, 3333}}) {
    Case bf16 = at;
    bf16.precision = Precision::kBfloat16, bf16.accumulate = true;
    CheckAllOrders<float>(bf16);
  }
}

TEST_P(MatMulBf16Test, NothingToSum) {
  CheckAllOrders<float>({.M = 3, .N = 5, .bias = true, .precision = Precision::kBfloat16});
}

TEST_P(MatMulBf16Test, DoubleStaysDouble) {
  CheckAllOrders<double>({.M = 20, .N = 9, .K = 70, .precision = Precision::kBfloat16});
}

// Where the packed product keeps x in float, this is the product in float.
TEST_P(MatMulBf16Test, IsGemmOfPackedWeights) {
  CheckAgainstGemm(Precision::kBfloat16, native_ ? Precision::kBfloat16 : Precision::kFloat32);
}

TEST_P(MatMulBf16Test, ResultsDoNotDependOnThreads) {
  CheckThreads({Case{700, 150, 300}, Case{70, 90, 3200}, Case{20, 400, 64}}, Precision::kBfloat16);
}

// Infinite in float, an infinity with a number beside it in pairs: the pair's bits are no float.
TEST_P(MatMulBf16Test, NaNStaysInItsRowAndColumn) {
  constexpr int64_t M = 20, N = 50, K = 40;
  for (const bool transposed : {false, true}) {
    Sampler sampler(6);
    Operand<float> a(sampler, M, K, transposed, 0), b(sampler, K, N, transposed, 0);
    a.memory[transposed ? 3 * M + 7 : 7 * K + 3] = std::numeric_limits<float>::quiet_NaN();
    b.memory[transposed ? 49 * K + 5 : 5 * N + 49] = std::numeric_limits<float>::infinity();
    Tensor<float> c({M, N});
    MatMul<float>(a.view, b.view, c, false, Precision::kBfloat16);
    for (int64_t m = 0; m < M; ++m) {
      for (int64_t n = 0; n < N; ++n) {
        ASSERT_EQ(std::isnan(c[m * N + n]), m == 7);
        ASSERT_EQ(std::isinf(c[m * N + n]), n == 49 && m != 7);
      }
    }
  }
}

TEST_P(MatMulTest, EmptyShapes) {
  Tensor<float> none({0, 5}), b({5, 3}), c({0, 3}), no_columns({5, 0}), a({4, 5}), c_none({4, 0});
  MatMul<float>(none, b, c);
  MatMul<float>(a, no_columns, c_none);
}

TEST_P(MatMulTest, WrongShapesAreRefused) {
  Tensor<float> a({2, 4}), b({4, 3}), c({2, 3}), other({3, 3});
  EXPECT_NO_THROW(MatMul<float>(a, b, c));
  EXPECT_THROW(MatMul<float>(b, a, c), Error);
  EXPECT_THROW(MatMul<float>(a, b, c, false, Precision::kInt8), Error);
  EXPECT_THROW(MatMul<float>(a, Transposed(b.view()), c), Error);
  EXPECT_THROW(MatMul<float>(a, b, other), Error);
  EXPECT_THROW(MatMul<float>(View<const float>(a.data(), {8}), b, c), Error);
  EXPECT_THROW(MatMul<float>(View<const float>(a.data(), {2, 2}, {4, 2}), other.view().slice(0, 0, 2), c), Error);
  EXPECT_THROW(MatMul<float>(a.view().slice(1, 0, 2), View<const float>(a.data(), {2, 3}, {4, 2}), c), Error);
  EXPECT_THROW(MatMul<float>(a, b, View<float>(c.data(), {2, 3}, {1, 2})), Error);
}

}  // namespace
}  // namespace qkv::simd
