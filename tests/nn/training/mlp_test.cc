// The MLP in training: every activation, gates in both orders, the norm.
#include "qkv/nn/training/mlp.h"

#include "tests/nn/training.h"

namespace qkv::nn {
namespace {

using simd::Activation;
using simd::Gate;

constexpr Activation kActivations[] = {Activation::kNone,      Activation::kGelu, Activation::kGeluTanh,
                                       Activation::kQuickGelu, Activation::kRelu, Activation::kSilu,
                                       Activation::kTanh};

struct MlpLayer {
  int64_t rows = 3, D = 4, M = 5;
  Activation activation = Activation::kGelu;
  Gate gate = Gate::kNone;
  bool norm = false, bias = true, residual = false;
  simd::Precision precision = simd::Precision::kFloat32;

  int64_t hidden() const { return gate == Gate::kNone ? M : 2 * M; }
  Shape x() const { return {rows, D}; }
  Shape y() const { return {rows, D}; }
  int64_t parameters() const { return hidden() * (D + bias) + D * (M + bias) + (norm ? 2 * M : 0); }

  template <typename T>
  MlpParameters<T> Parameters(View<T> buffer) const {
    Cut<T> cut(buffer);
    MlpParameters<T> p;
    p.fc1 = cut.Linear(hidden(), D, bias);
    if (norm) p.norm = cut.Norm(M, simd::NormKind::kLayer, 0.25);
    p.fc2 = cut.Linear(D, M, bias);
    return p;
  }

  // With a residual, y = x + mlp(x) as in a block, whose backward pass adds to dx.
  template <typename T>
  void Run(View<const T> weights, View<const T> x, View<T> y, const Gradients<T>& g) const {
    const MlpSettings settings{.config = {.gate = gate, .activation = activation}, .precision = precision};
    Arena arena;
    MlpCache<T> cache;
    MlpForward<T>(x, Parameters<const T>(weights), settings, residual ? x : View<const T>(), y, cache, arena);
    if (g.dy.empty()) return;
    const bool add = g.add || residual;
    for (int64_t i = 0; i < g.dx.size() && residual; ++i) {
      g.dx.data()[i] = g.add ? g.dx.data()[i] + g.dy.data()[i] : g.dy.data()[i];
    }
    MlpBackward<T>(x, Parameters<const T>(weights), settings, cache, g.dy, g.dx, add, Parameters<T>(g.d), arena);
  }
};

TEST(MlpGradient, EqualsFiniteDifferences) {
  for (const Activation activation : kActivations) {
    for (const Gate gate : {Gate::kNone, Gate::kFirst, Gate::kLast}) {
      for (const bool norm : {false, true}) {
        SCOPED_TRACE(static_cast<int>(activation) * 100 + static_cast<int>(gate) * 10 + norm);
        CheckFiniteDifferences(MlpLayer{.activation = activation, .gate = gate, .norm = norm});
      }
    }
  }
  CheckFiniteDifferences(MlpLayer{.bias = false, .residual = true});
  CheckFiniteDifferences(MlpLayer{.rows = 1, .D = 1, .M = 1});
}

class MlpGradientTest : public IsaTest {};
QKV_FOR_ALL_ISAS(MlpGradientTest);

TEST_P(MlpGradientTest, FloatEqualsDouble) {
  for (const int64_t M : {1, 15, 16, 33, 100}) {
    for (const Gate gate : {Gate::kNone, Gate::kFirst, Gate::kLast}) {
      SCOPED_TRACE(M * 10 + static_cast<int>(gate));
      CheckFloat(MlpLayer{.rows = 35, .D = 23, .M = M, .activation = Activation::kGelu, .gate = gate});
      CheckFloat(MlpLayer{.rows = 35, .D = 23, .M = M, .activation = Activation::kSilu, .gate = gate, .norm = true});
    }
  }
}

// Where the machine multiplies bfloat16, each product rounds its factors to 8 bits: 2^-8 of what it sums, in products
// up to three deep. Elsewhere the products are those of float.
TEST_P(MlpGradientTest, Bfloat16) {
  for (const bool norm : {false, true}) {
    MlpLayer layer{.rows = 70, .D = 64, .M = 128, .norm = norm, .precision = simd::Precision::kBfloat16};
    const auto got = RunPasses(layer, Numbers<float>(layer));
    const auto exact = RunPasses(layer, Numbers<double>(layer));
    layer.precision = simd::Precision::kFloat32;
    const auto single = RunPasses(layer, Numbers<float>(layer));
    const bool native = simd::Describe(simd::Precision::kBfloat16).native;
    const auto check = [&](const Tensor<float>& value, const Tensor<double>& reference, const Tensor<float>& plain) {
      EXPECT_LE(RelativeError(value, reference), 4 * 0x1p-8);
      EXPECT_EQ(RelativeError(value, Cast<double>(plain)) == 0, !native);
    };
    check(got.y, exact.y, single.y);
    check(got.dx, exact.dx, single.dx);
    check(got.d, exact.d, single.d);
  }
}

TEST_P(MlpGradientTest, SameBitsForAnyThreads) {
  CheckThreads(MlpLayer{.rows = 700, .D = 40, .M = 150, .residual = true});
  CheckThreads(MlpLayer{.rows = 700, .D = 40, .M = 90, .gate = Gate::kFirst, .norm = true});
}

// Training computes what inference computes.
TEST(MlpGradient, ForwardIsInferences) {
  for (const Gate gate : {Gate::kNone, Gate::kFirst, Gate::kLast}) {
    const MlpLayer layer{.rows = 9, .D = 20, .M = 30, .activation = Activation::kSilu, .gate = gate, .norm = true};
    const Numbers<float> n(layer);
    const MlpParameters<const float> p = layer.Parameters<const float>(n.weights);
    const auto copy = [](View<const float> from) {
      Tensor<float> to(from.shape());
      std::copy_n(from.data(), from.size(), to.data());
      return to;
    };
    Mlp<float> mlp;
    mlp.activation = layer.activation;
    mlp.fc1 = {simd::PackedMatrix<float>(p.fc1.weight, gate), copy(p.fc1.bias)};
    mlp.norm = {copy(p.norm.gamma), copy(p.norm.beta), 0.25f};
    mlp.fc2 = {simd::PackedMatrix<float>(p.fc2.weight), copy(p.fc2.bias)};
    Tensor<float> expected({1, 9, 20}), y({9, 20});
    Arena arena;
    MlpForward<float>(n.x.view().reshape({1, 9, 20}), mlp, nullptr, {}, expected, arena);
    layer.Run<float>(n.weights, n.x, y, {});
    EXPECT_LE(RelativeError(y, Cast<double>(expected)), LayerTolerance<float>());
  }
}

// A second step needs no more memory than the first.
TEST(MlpGradient, GivesItsScratchBack) {
  const MlpLayer layer{.norm = true};
  const Numbers<float> n(layer);
  const auto p = layer.Parameters<const float>(n.weights);
  Tensor<float> y({3, 4}), dx({3, 4}), d = n.d_before.Clone();
  Arena arena;
  size_t peak = 0;
  for (int step = 0; step < 3; ++step) {
    const Arena::Scope scope(arena);
    MlpCache<float> cache;
    MlpForward<float>(n.x, p, {}, {}, y, cache, arena);
    const View<float> before = arena.New<float>({1});
    MlpBackward<float>(n.x, p, {}, cache, n.dy, dx, false, layer.Parameters<float>(d), arena);
    EXPECT_EQ(arena.New<float>({1}).data() - before.data(), 16) << "one aligned element further";
    if (step == 0) peak = arena.peak_bytes();
    EXPECT_EQ(arena.peak_bytes(), peak);
  }
}

}  // namespace
}  // namespace qkv::nn
