// Dropout, stochastic depth and LayerScale in training.
#include "qkv/nn/training/branch.h"

#include "qkv/nn/training/dropout.h"
#include "tests/nn/training.h"

namespace qkv::nn {
namespace {

// What a block does with what a branch puts out: dropout, LayerScale, stochastic depth, the residual. x is the branch's
// output; the residual is a parameter, so that its gradient is checked too.
struct BranchLayer {
  int64_t images = 3, N = 4, D = 5;
  bool scale = true, factors = true, in_place = false;
  double dropout = 0;

  Shape x() const { return {images, N, D}; }
  Shape y() const { return {images, N, D}; }
  int64_t parameters() const { return images * N * D + (scale ? D : 0); }

  template <typename T>
  void Run(View<const T> weights, View<const T> x, View<T> y, const Gradients<T>& g) const {
    Cut<const T> cut(weights);
    const View<const T> rest = cut({images, N, D}), p = scale ? cut({D}) : View<const T>();
    Tensor<T> of_images({images}), output({images, N, D});
    std::copy_n(x.data(), x.size(), output.data());
    if (factors) DrawBranchFactors<T>({.probability = 0.5, .seed = 3, .first = 10}, of_images);
    const View<const T> f = factors ? View<const T>(of_images) : View<const T>();
    const Dropout drop{.probability = dropout, .seed = 9, .first = 100};
    ApplyDropout<T>(drop, output.view().reshape({images * N, D}));
    Tensor<T> kept = output.Clone();
    const View<T> to = in_place ? output.view() : y;
    BranchForward<T>(output, p, f, rest, to);
    if (in_place) std::copy_n(to.data(), to.size(), y.data());
    if (g.dy.empty()) return;
    Cut<T> cut_d(g.d);
    const View<T> drest = cut_d({images, N, D}), d = scale ? cut_d({D}) : View<T>();
    for (int64_t i = 0; i < drest.size(); ++i) drest.data()[i] += g.dy.data()[i];
    Tensor<T> doutput({images, N, D});
    const View<T> dto = in_place ? kept.view() : doutput.view();
    BranchBackward<T>(kept, p, f, g.dy, dto, d);
    ApplyDropout<T>(drop, dto.reshape({images * N, D}));
    for (int64_t i = 0; i < g.dx.size(); ++i) g.dx.data()[i] = dto.data()[i] + (g.add ? g.dx.data()[i] : T{0});
  }
};

TEST(BranchGradient, EqualsFiniteDifferences) {
  for (const bool scale : {false, true}) {
    for (const bool factors : {false, true}) {
      for (const double dropout : {0.0, 0.4}) {
        CheckFiniteDifferences(BranchLayer{.scale = scale, .factors = factors, .dropout = dropout});
        CheckFiniteDifferences(BranchLayer{.scale = scale, .factors = factors, .in_place = true, .dropout = dropout});
      }
    }
  }
}

class BranchGradientTest : public IsaTest {};
QKV_FOR_ALL_ISAS(BranchGradientTest);

TEST_P(BranchGradientTest, FloatEqualsDouble) {
  for (const int64_t D : {1, 16, 33, 70}) CheckFloat(BranchLayer{.N = 67, .D = D, .dropout = 0.2});
}

TEST_P(BranchGradientTest, SameBitsForAnyThreads) {
  CheckThreads(BranchLayer{.images = 20, .N = 65, .D = 70, .dropout = 0.2});
}

TEST(BranchGradient, RefusesOtherShapes) {
  Tensor<float> x({2, 3, 4}), other({2, 3, 5}), scale({5}), factors({3});
  EXPECT_THROW(BranchForward<float>(x, scale, {}, x, x), Error);
  EXPECT_THROW(BranchForward<float>(x, {}, factors, x, x), Error);
  EXPECT_THROW(BranchForward<float>(x, {}, {}, other, x), Error);
  EXPECT_THROW(BranchForward<float>(x, {}, {}, x, other), Error);
  EXPECT_THROW(BranchBackward<float>(x, {}, {}, x, x, scale), Error);
  EXPECT_THROW(BranchBackward<float>(other, {}, {}, x, x, factors), Error);
}

// Which entries are dropped follows from the row's number in the step: chunks of rows come to the same.
TEST(Dropout, DoesNotDependOnChunks) {
  const auto x = Sampler(1).Normal<float>({300, 70});
  Tensor<float> whole = x.Clone(), parts = x.Clone();
  ApplyDropout<float>({.probability = 0.3, .seed = 5, .first = 7}, whole);
  for (int64_t row = 0; row < 300; row += 100) {
    ApplyDropout<float>({.probability = 0.3, .seed = 5, .first = 7 + row}, parts.view().slice(0, row, row + 100));
  }
  ExpectSameBits(parts, whole, "dropout");
  Tensor<float> factors({40}), some({15});
  DrawBranchFactors<float>({.probability = 0.3, .seed = 5}, factors);
  DrawBranchFactors<float>({.probability = 0.3, .seed = 5, .first = 25}, some);
  for (int64_t b = 0; b < 15; ++b) EXPECT_EQ(some[b], factors[25 + b]);
}

// What is left keeps its expectation; shares are within six standard deviations of the probability.
TEST(Dropout, DropsItsShare) {
  for (const double probability : {0.1, 0.5, 0.9}) {
    Tensor<double> x({400, 100}), factors({40000});
    for (double& value : x.span()) value = 1;
    ApplyDropout<double>({.probability = probability, .seed = 1}, x);
    DrawBranchFactors<double>({.probability = probability, .seed = 1}, factors);
    for (const Tensor<double>* of : {&x, &factors}) {
      double dropped = 0;
      for (const double value : of->span()) {
        dropped += value == 0;
        ASSERT_DOUBLE_EQ(value, value == 0 ? 0 : 1 / (1 - probability));
      }
      EXPECT_NEAR(dropped / 40000, probability, 6 * std::sqrt(probability * (1 - probability) / 40000));
    }
  }
  Tensor<float> x = Sampler(1).Normal<float>({3, 4});
  const Tensor<float> before = x.Clone();
  ApplyDropout<float>({}, x);
  ExpectSameBits(x, before, "no dropout");
  EXPECT_THROW(ApplyDropout<float>({.probability = 1}, x), Error);
  EXPECT_THROW(DrawBranchFactors<float>({.probability = -0.1}, x), Error);
}

}  // namespace
}  // namespace qkv::nn
