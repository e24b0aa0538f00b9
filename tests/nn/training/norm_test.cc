// LayerNorm in training.
#include "qkv/nn/training/norm.h"

#include "tests/nn/training.h"

namespace qkv::nn {
namespace {

struct NormLayer {
  int64_t rows, D;
  bool gamma = true, beta = true;
  bool in_place = false;  // dx is dy's memory
  int64_t padding = 0;
  // So large that differences of narrow rows, which a small variance would make steep, are well behaved.
  double eps = 0.25;
  simd::NormKind kind = simd::NormKind::kLayer;

  Shape x() const { return {rows, D}; }
  Shape y() const { return {rows, D}; }
  int64_t parameters() const { return (gamma + beta) * D; }

  template <typename T>
  NormParameters<T> Parameters(View<T> buffer) const {
    Cut<T> cut(buffer);
    const View<T> g = gamma ? cut({D}) : View<T>();
    return {g, beta ? cut({D}) : View<T>(), kind, eps};
  }
  // Rows `padding` apart.
  template <typename T>
  View<T> Strided(Tensor<T>& memory, View<const T> from) const {
    memory = Tensor<T>({rows, D + padding});
    for (int64_t r = 0; r < rows; ++r) std::copy_n(from.row(r), D, memory.view().row(r));
    return memory.view().slice(1, 0, D);
  }

  template <typename T>
  void Run(View<const T> weights, View<const T> x, View<T> y, const Gradients<T>& g) const {
    const NormParameters<const T> p = Parameters<const T>(weights);
    Tensor<T> moments({rows, 2}), x_memory, y_memory, dy_memory, dx_memory;
    const View<T> xs = Strided(x_memory, x), ys = Strided<T>(y_memory, y);
    NormForward<T>(xs, p, ys, moments);
    for (int64_t r = 0; r < rows; ++r) std::copy_n(ys.row(r), D, y.row(r));
    if (g.dy.empty()) return;
    const View<T> dy = Strided(dy_memory, g.dy), dx = in_place ? dy : Strided<T>(dx_memory, g.dx);
    NormBackward<T>(xs, moments, p, dy, dx, g.add, Parameters<T>(g.d));
    for (int64_t r = 0; r < rows; ++r) std::copy_n(dx.row(r), D, g.dx.row(r));
    for (const Tensor<T>* memory : {&y_memory, &dy_memory, &dx_memory}) {
      for (int64_t i = D; i < D + padding && !memory->empty(); ++i) EXPECT_EQ(*memory->view().at(rows - 1, i), T{0});
    }
  }
};

TEST(NormGradient, EqualsFiniteDifferences) {
  for (const int64_t D : {1, 2, 3, 7, 16, 21}) {
    for (const bool gamma : {false, true}) {
      for (const bool beta : {false, true}) {
        NormLayer layer{.rows = 4, .D = D, .gamma = gamma, .beta = beta, .padding = D % 3};
        CheckFiniteDifferences(layer);
        layer.kind = simd::NormKind::kRms;
        CheckFiniteDifferences(layer);
      }
    }
  }
  CheckFiniteDifferences(NormLayer{.rows = 4, .D = 24, .eps = 1e-6});
}

class NormGradientTest : public IsaTest {};
QKV_FOR_ALL_ISAS(NormGradientTest);

// Every remainder of two vectors, and of the eight that columns are summed by.
TEST_P(NormGradientTest, FloatEqualsDouble) {
  for (int64_t D = 1; D <= 150; D += D < 34 ? 1 : 13) {
    CheckFloat(NormLayer{.rows = 67, .D = D, .padding = D % 3});
  }
  CheckFloat(NormLayer{.rows = 67, .D = 45, .gamma = false, .beta = false});
}

TEST_P(NormGradientTest, InPlaceTheSameBits) {
  const NormLayer apart{.rows = 20, .D = 37}, in_place{.rows = 20, .D = 37, .in_place = true};
  const Numbers<float> n(apart);
  const auto expected = RunPasses(apart, n), got = RunPasses(in_place, n);
  ExpectSameBits(got.dx, expected.dx, "dx");
  ExpectSameBits(got.d, expected.d, "gradients of the weights");
}

TEST_P(NormGradientTest, SameBitsForAnyThreads) { CheckThreads(NormLayer{.rows = 1500, .D = 150}); }

// Training computes what inference computes.
TEST_P(NormGradientTest, ForwardIsInferences) {
  const auto x = Sampler(1).Normal<float>({9, 77}, 3), gamma = Sampler(2).Normal<float>({77}),
             beta = Sampler(3).Normal<float>({77});
  Tensor<float> expected({9, 77}), y({9, 77}), again({9, 77}), moments({9, 2});
  NormForward<float>(x, {gamma.Clone(), beta.Clone(), 1e-6f}, expected);
  NormForward<float>(x, {gamma, beta}, y, moments);
  Renormalise<float>(x, moments, {gamma, beta}, again);
  ExpectSameBits(y, expected, "y");
  ExpectSameBits(again, expected, "y from its moments");
}

TEST(NormGradient, RefusesOtherShapes) {
  Tensor<float> x({2, 5}), y({2, 5}), moments({2, 2}), gamma({4}), other({2, 4});
  EXPECT_THROW(NormForward<float>(x, {gamma, {}}, y, moments), Error);
  EXPECT_THROW(NormForward<float>(x, {{}, gamma}, y, moments), Error);
  EXPECT_THROW(NormForward<float>(x, {}, other, moments), Error);
  EXPECT_THROW(NormForward<float>(x, {}, y, other), Error);
  EXPECT_THROW(Renormalise<float>(x, moments, {}, other), Error);
  EXPECT_THROW(NormBackward<float>(x, moments, {}, other, y, false, {}), Error);
  EXPECT_THROW(NormBackward<float>(x, moments, {}, y, other, false, {}), Error);
  EXPECT_THROW(NormBackward<float>(x, moments, {}, y, y, false, {gamma, {}}), Error);
}

}  // namespace
}  // namespace qkv::nn
