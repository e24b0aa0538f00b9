#include "qkv/algebra/rope.h"

#include <cmath>

#include "qkv/algebra/eigen-inl.h"

namespace qkv::algebra {

using namespace internal;

template <typename T>
Projection<T> Rotate(const ProjectionView<T>& projection, const Rope& rope, double position) {
  RequireProjection("rotate", projection);
  const int64_t E = projection.weight.dim(0), width = rope.width == 0 ? E : rope.width;
  Require(width > 0 && width % 2 == 0 && width <= E, "rotate: expected an even width of at most {}, got {}", E, width);
  Matrix<T> W = AsEigen(projection.weight);
  Vector<T> b = BiasOrZero(projection);
  for (int64_t e = 0; e < width; e += 2) {
    const double angle = position * std::pow(rope.base, -static_cast<double>(e) / static_cast<double>(width));
    const T c = static_cast<T>(std::cos(angle)), s = static_cast<T>(std::sin(angle));
    const auto turn = [c, s](T& x, T& y) {
      const T turned = c * x - s * y;
      y = s * x + c * y;
      x = turned;
    };
    for (Eigen::Index d = 0; d < W.cols(); ++d) turn(W(e, d), W(e + 1, d));
    turn(b(e), b(e + 1));
  }
  Projection<T> rotated{ToTensor(W), {}};
  if (!projection.bias.empty()) rotated.bias = ToTensor<T>(b);
  return rotated;
}

template Projection<float> Rotate(const ProjectionView<float>&, const Rope&, double);
template Projection<double> Rotate(const ProjectionView<double>&, const Rope&, double);

}  // namespace qkv::algebra
