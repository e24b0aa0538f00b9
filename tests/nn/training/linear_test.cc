// The linear layer in training.
#include "qkv/nn/training/linear.h"

#include "qkv/simd/gemm/matmul.h"
#include "tests/nn/training.h"

namespace qkv::nn {
namespace {

struct LinearLayer {
  int64_t rows, inputs, outputs;
  bool bias = true, residual = false;
  int64_t padding = 0;  // between two rows of everything

  Shape x() const { return {rows, inputs}; }
  Shape y() const { return {rows, outputs}; }
  int64_t parameters() const { return outputs * (inputs + (bias ? 1 : 0)) + (residual ? rows * outputs : 0); }

  template <typename T>
  Tensor<T> Widen(View<const T> from) const {
    Tensor<T> wide({from.dim(0), from.dim(1) + padding});
    for (T& value : wide.span()) value = std::numeric_limits<T>::quiet_NaN();
    for (int64_t r = 0; r < from.dim(0); ++r) std::copy_n(from.row(r), from.dim(1), wide.view().row(r));
    return wide;
  }
  template <typename T>
  void CopyBack(Tensor<T>& wide, View<T> to) const {
    for (int64_t r = 0; r < to.dim(0); ++r) {
      std::copy_n(wide.view().row(r), to.dim(1), to.row(r));
      for (int64_t i = 0; i < padding; ++i) {
        EXPECT_TRUE(std::isnan(*wide.view().at(r, to.dim(1) + i))) << "wrote past a row";
      }
    }
  }

  // The residual's gradient is dy itself.
  template <typename T>
  void Run(View<const T> weights, View<const T> x, View<T> y, const Gradients<T>& g) const {
    Cut<const T> cut(weights);
    const LinearParameters<const T> p = cut.Linear(outputs, inputs, bias);
    Tensor<T> wide_x = Widen<T>(x), wide_y = Widen<T>(residual ? cut({rows, outputs}) : View<const T>(y));
    const View<T> xs = wide_x.view().slice(1, 0, inputs), ys = wide_y.view().slice(1, 0, outputs);
    LinearForward<T>(xs, p, ys, residual ? View<const T>(ys) : View<const T>());
    CopyBack(wide_y, y);
    if (g.dy.empty()) return;
    Cut<T> cut_d(g.d);
    const LinearParameters<T> d = cut_d.Linear(outputs, inputs, bias);
    if (residual) {
      const View<T> d_residual = cut_d({rows, outputs});
      for (int64_t i = 0; i < d_residual.size(); ++i) d_residual.data()[i] += g.dy.data()[i];
    }
    Tensor<T> wide_dy = Widen<T>(g.dy), wide_dx = Widen<T>(g.dx);
    LinearBackward<T>(xs, p, wide_dy.view().slice(1, 0, outputs), wide_dx.view().slice(1, 0, inputs), g.add, d);
    CopyBack(wide_dx, g.dx);
  }
};

TEST(LinearGradient, EqualsFiniteDifferences) {
  for (const bool bias : {false, true}) {
    for (const int64_t padding : {0, 3}) {
      CheckFiniteDifferences(LinearLayer{.rows = 5, .inputs = 7, .outputs = 4, .bias = bias, .padding = padding});
    }
  }
  CheckFiniteDifferences(LinearLayer{.rows = 1, .inputs = 1, .outputs = 1});
  CheckFiniteDifferences(LinearLayer{.rows = 3, .inputs = 2, .outputs = 9, .residual = true, .padding = 1});
}

class LinearGradientTest : public IsaTest {};
QKV_FOR_ALL_ISAS(LinearGradientTest);

TEST_P(LinearGradientTest, FloatEqualsDouble) {
  for (const int64_t outputs : {1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 64, 65, 67}) {
    CheckFloat(LinearLayer{.rows = 70, .inputs = 19, .outputs = outputs, .padding = outputs % 3});
  }
}

TEST_P(LinearGradientTest, SameBitsForAnyThreads) {
  CheckThreads(LinearLayer{.rows = 1700, .inputs = 40, .outputs = 70});
}

// The three products round their factors where they are asked to.
TEST_P(LinearGradientTest, Bfloat16) {
  constexpr auto kBfloat16 = simd::Precision::kBfloat16;
  const LinearLayer layer{.rows = 70, .inputs = 37, .outputs = 53, .bias = false};
  const Numbers<float> n(layer);
  const View<const float> x = n.x, dy = n.dy;
  Cut<const float> cut(n.weights.view());
  const LinearParameters<const float> p = cut.Linear(53, 37, false);
  auto y = Tensor<float>(layer.y()), dx = Tensor<float>(layer.x()), d = n.d_before.Clone();
  auto y_expected = y.Clone(), dx_expected = dx.Clone(), d_expected = n.d_before.Clone();
  LinearForward<float>(x, p, y, {}, kBfloat16);
  LinearBackward<float>(x, p, dy, dx, false, Cut<float>(d.view()).Linear(53, 37, false), kBfloat16);
  simd::MatMul<float>(x, simd::Transposed(p.weight), y_expected.view(), false, kBfloat16);
  simd::MatMul<float>(dy, p.weight, dx_expected.view(), false, kBfloat16);
  simd::MatMul<float>(simd::Transposed(dy), x, d_expected.view().reshape({53, 37}), true, kBfloat16);
  ExpectSameBits(y, y_expected, "y");
  ExpectSameBits(dx, dx_expected, "dx");
  ExpectSameBits(d, d_expected, "gradients of the weights");
}

TEST(LinearGradient, LeavesOutWhatIsNotAskedFor) {
  const LinearLayer layer{.rows = 5, .inputs = 7, .outputs = 4};
  const Numbers<double> n(layer);
  const Passes<double> all = RunPasses(layer, n);
  Cut<const double> cut(n.weights.view());
  const LinearParameters<const double> p = cut.Linear(4, 7);
  Tensor<double> d = n.d_before.Clone(), dx = n.x.Clone();
  LinearBackward<double>(n.x, p, n.dy, {}, false, Cut<double>(d.view()).Linear(4, 7));
  for (int64_t i = 0; i < d.size(); ++i) EXPECT_EQ(d[i], all.d[i]);
  LinearBackward<double>(dx, p, n.dy, dx, false, Cut<double>(d.view()).Linear(4, 7));  // dx may be x
  for (int64_t i = 0; i < d.size(); ++i) EXPECT_NEAR(d[i] - all.d[i], all.d[i] - n.d_before[i], 1e-14);
  for (int64_t i = 0; i < dx.size(); ++i) EXPECT_EQ(dx[i], all.dx[i]);
  LinearBackward<double>(n.x, p, n.dy, dx, false, {});  // frozen weights
  for (int64_t i = 0; i < dx.size(); ++i) EXPECT_EQ(dx[i], all.dx[i]);
}

TEST(LinearGradient, RefusesOtherShapes) {
  Tensor<float> weight({4, 3}), bias({3}), x({2, 3}), y({2, 4});
  const LinearParameters<const float> p{weight, bias};
  EXPECT_THROW(LinearForward<float>(x, p, y), Error);
  EXPECT_THROW(LinearForward<float>(y, {weight, {}}, y), Error);
  EXPECT_THROW(LinearForward<float>(x, {weight, {}}, y, x), Error);
  EXPECT_THROW(LinearBackward<float>(x, p, y, {}, false, {weight, bias}), Error);
  EXPECT_THROW(LinearBackward<float>(x, p, x, {}, false, {weight, {}}), Error);
}

}  // namespace
}  // namespace qkv::nn
