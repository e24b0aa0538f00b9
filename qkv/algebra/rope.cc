#include "qkv/algebra/rope.h"

#include <cmath>

#include "qkv/algebra/eigen.h"

namespace qkv::algebra {

using namespace internal;

Projection Rotate(const ProjectionView& projection, const Rope& rope, double position) {
  RequireProjection("rotate", projection);
  const int64_t E = projection.weight.dim(0), width = rope.width == 0 ? E : rope.width;
  Require(width > 0 && width % 2 == 0 && width <= E, "rotate: expected an even width of at most {}, got {}", E, width);
  Matrix W = AsEigen(projection.weight);
  Vector b = BiasOrZero(projection);
  for (int64_t e = 0; e < width; e += 2) {
    const double angle = position * std::pow(rope.base, -static_cast<double>(e) / static_cast<double>(width));
    const double c = std::cos(angle), s = std::sin(angle);
    const auto turn = [c, s](double& x, double& y) {
      const double turned = c * x - s * y;
      y = s * x + c * y;
      x = turned;
    };
    for (Eigen::Index d = 0; d < W.cols(); ++d) turn(W(e, d), W(e + 1, d));
    turn(b(e), b(e + 1));
  }
  Projection rotated{ToTensor(W), {}};
  if (!projection.bias.empty()) rotated.bias = VectorToTensor(b);
  return rotated;
}

}  // namespace qkv::algebra
