// Eigen's SVD, instantiated once: divide and conquer.
#include <Eigen/SVD>
#include <utility>

#include "qkv/algebra/eigen.h"

namespace qkv::algebra::internal {
namespace {

using Decomposition = Eigen::BDCSVD<Matrix>;

Decomposition Decompose(const Matrix& m, unsigned options) {
  RequireFinite("singular values", m);
  const Decomposition svd(m, options);
  Require(svd.info() == Eigen::Success, "singular values: the iteration on a {}x{} matrix did not end", m.rows(),
          m.cols());
  return svd;
}

void FixSigns(Svd& svd) {
  for (Eigen::Index i = 0; i < svd.u.cols(); ++i) {
    Eigen::Index greatest;
    svd.u.col(i).cwiseAbs().maxCoeff(&greatest);
    if (svd.u(greatest, i) < 0) svd.u.col(i) *= -1, svd.v.col(i) *= -1;
  }
}

}  // namespace

Svd ThinSvd(const Matrix& m) {
  const Decomposition svd = Decompose(m, Eigen::ComputeThinU | Eigen::ComputeThinV);
  Svd result{svd.matrixU(), svd.singularValues(), svd.matrixV()};
  FixSigns(result);
  return result;
}

Vector ComputeSingularValues(const Matrix& m) { return Decompose(m, 0).singularValues(); }

Svd ProductSvd(const Matrix& a, const Matrix& b) {
  const Qr qr_a = ThinQr(a.transpose()), qr_b = ThinQr(b.transpose());
  Svd core = ThinSvd(qr_a.r * qr_b.r.transpose());
  Svd result{qr_a.q * core.u, std::move(core.s), qr_b.q * core.v};
  FixSigns(result);
  return result;
}

}  // namespace qkv::algebra::internal
