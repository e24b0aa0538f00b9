// Checks that every layer's training passes go through: gradients against finite differences, float against double, the
// same bits for any number of threads.
//
// A layer under test has
//   Shape x() const, y() const; int64_t parameters() const;
//   template <typename T> void Run(View<const T> weights, View<const T> x, View<T> y, const Gradients<T>& g) const;
// where Run is the forward pass and, unless g.dy is empty, the backward pass; weights: [parameters()].
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <type_traits>

#include "qkv/core/parallel.h"
#include "qkv/nn/training/linear.h"
#include "qkv/nn/training/norm.h"
#include "tests/nn/layers.h"
#include "tests/support/gradients.h"
#include "tests/support/isas.h"
#include "tests/support/sampler.h"
#include "tests/support/threads.h"

namespace qkv::nn {

template <typename T>
struct Gradients {
  View<const T> dy;  // given
  View<T> dx;        // as y and x
  bool add = false;  // dx is added to
  View<T> d;         // by the weights, added to
};

/// Hands out the parameters of a flat buffer one after the other, or the gradients of a buffer of the same layout.
template <typename T>
class Cut {
 public:
  explicit Cut(View<T> buffer) : buffer_(buffer) {}

  View<T> operator()(const Shape& shape) {
    const View<T> view(buffer_.data() + used_, shape);
    used_ += shape.size();
    EXPECT_LE(used_, buffer_.size());
    return view;
  }
  LinearParameters<T> Linear(int64_t outputs, int64_t inputs, bool bias = true) {
    const View<T> weight = (*this)({outputs, inputs});
    return {weight, bias ? (*this)({outputs}) : View<T>()};
  }
  NormParameters<T> Norm(int64_t D, simd::NormKind kind = simd::NormKind::kLayer, double eps = 1e-6) {
    const View<T> gamma = (*this)({D});
    return {gamma, kind == simd::NormKind::kLayer ? (*this)({D}) : View<T>(), kind, eps};
  }

 private:
  View<T> buffer_;
  int64_t used_ = 0;
};

/// Random numbers for a layer, the same for each type: float ones are exact in double.
template <typename T>
struct Numbers {
  template <class Layer>
  explicit Numbers(const Layer& layer) {
    Sampler sampler(7);
    const auto draw = [&](const Shape& shape, double stddev) {
      return Cast<T>(sampler.Normal<float>(shape, 0, stddev));
    };
    weights = draw({layer.parameters()}, 0.5);
    x = draw(layer.x(), 1);
    dy = draw(layer.y(), 1);
    dx_before = draw(layer.x(), 1);
    d_before = draw({layer.parameters()}, 1);
  }
  Tensor<T> weights, x, dy, dx_before, d_before;
};

template <typename T>
struct Passes {
  Tensor<T> y, dx, d;
};
/// Forward and backward; gradients of the weights begin at d_before, and dx, where it is added to, at dx_before.
template <typename T, class Layer>
Passes<T> RunPasses(const Layer& layer, const Numbers<T>& n, bool add = false) {
  Passes<T> out{Tensor<T>(layer.y()), n.dx_before.Clone(), n.d_before.Clone()};
  layer.template Run<T>(n.weights, n.x, out.y, {n.dy, out.dx, add, out.d});
  return out;
}

template <typename T>
Tensor<T> Difference(const Tensor<T>& a, const Tensor<T>& b) {
  Tensor<T> difference(a.shape());
  for (int64_t i = 0; i < a.size(); ++i) difference[i] = a[i] - b[i];
  return difference;
}

/// By every entry of x and of the weights; by_x: whether the layer has a gradient by x.
template <class Layer>
void CheckFiniteDifferences(const Layer& layer, bool by_x = true) {
  Numbers<double> n(layer);
  for (const bool add : {false, true}) {
    const Passes<double> passes = RunPasses(layer, n, add);
    Tensor<double> y(layer.y());
    const auto loss = [&] {
      layer.template Run<double>(n.weights, n.x, y, {});
      return WeightedSum(n.dy, y);
    };
    ExpectGradient(loss, n.weights, Difference(passes.d, n.d_before), "weights");
    if (by_x) ExpectGradient(loss, n.x, add ? Difference(passes.dx, n.dx_before) : passes.dx.Clone(), "x");
  }
}

/// Greatest difference, relative to the greatest entry.
inline double RelativeError(const Tensor<float>& got, const Tensor<double>& expected) {
  double difference = 0, greatest = 1e-300;
  for (int64_t i = 0; i < got.size(); ++i) {
    difference = std::max(difference, std::abs(static_cast<double>(got[i]) - expected[i]));
    greatest = std::max(greatest, std::abs(expected[i]));
  }
  return difference / greatest;
}

/// `in_series`: layers of which one's rounding goes into the next, so that their errors add up.
template <class Layer>
void CheckFloat(const Layer& layer, int in_series = 1) {
  const double tolerance = in_series * LayerTolerance<float>();
  for (const bool add : {false, true}) {
    const auto got = RunPasses(layer, Numbers<float>(layer), add);
    const auto exact = RunPasses(layer, Numbers<double>(layer), add);
    EXPECT_LE(RelativeError(got.y, exact.y), tolerance) << "y";
    EXPECT_LE(RelativeError(got.dx, exact.dx), tolerance) << "dx";
    EXPECT_LE(RelativeError(got.d, exact.d), tolerance) << "gradients of the weights";
  }
}

inline void ExpectSameBits(const Tensor<float>& a, const Tensor<float>& b, const std::string& what) {
  for (int64_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(a[i]), std::bit_cast<uint32_t>(b[i])) << what << " at " << i;
  }
}

/// The layer should be large enough for its loops to be shared out.
template <class Layer>
void CheckThreads(const Layer& layer) {
  const RestoreThreads restore;
  const Numbers<float> n(layer);
  SetNumThreads(1);
  const auto alone = RunPasses(layer, n);
  for (const int threads : {2, 3}) {
    SetNumThreads(threads);
    const auto shared = RunPasses(layer, n);
    ExpectSameBits(shared.y, alone.y, "y");
    ExpectSameBits(shared.dx, alone.dx, "dx");
    ExpectSameBits(shared.d, alone.d, "gradients of the weights");
  }
}

}  // namespace qkv::nn
