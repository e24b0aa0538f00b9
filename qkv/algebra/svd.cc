// Eigen's SVD, instantiated once: divide and conquer, in double.
#include <Eigen/SVD>
#include <utility>

#include "qkv/algebra/eigen-inl.h"

namespace qkv::algebra::internal {
namespace {

// Also used for float matrices: it takes as long to compile as the rest of this folder.
using Decomposition = Eigen::BDCSVD<Matrix<double>>;

template <typename T>
Decomposition Decompose(const Matrix<T>& m, unsigned options) {
  RequireFinite("singular values", m);
  const Decomposition svd(m.template cast<double>(), options);
  Require(svd.info() == Eigen::Success, "singular values: the iteration on a {}x{} matrix did not end", m.rows(),
          m.cols());
  return svd;
}

template <typename T>
void FixSigns(Svd<T>& svd) {
  for (Eigen::Index i = 0; i < svd.u.cols(); ++i) {
    Eigen::Index greatest;
    svd.u.col(i).cwiseAbs().maxCoeff(&greatest);
    if (svd.u(greatest, i) < 0) svd.u.col(i) *= -1, svd.v.col(i) *= -1;
  }
}

}  // namespace

template <typename T>
Svd<T> ThinSvd(const Matrix<T>& m) {
  const Decomposition svd = Decompose(m, Eigen::ComputeThinU | Eigen::ComputeThinV);
  Svd<T> result{svd.matrixU().template cast<T>(), svd.singularValues().template cast<T>(),
                svd.matrixV().template cast<T>()};
  FixSigns(result);
  return result;
}

template <typename T>
Vector<T> ComputeSingularValues(const Matrix<T>& m) {
  return Decompose(m, 0).singularValues().template cast<T>();
}

template <typename T>
Svd<T> ProductSvd(const Matrix<T>& a, const Matrix<T>& b) {
  const Qr<T> qr_a = ThinQr<T>(a.transpose()), qr_b = ThinQr<T>(b.transpose());
  Svd<T> core = ThinSvd<T>(qr_a.r * qr_b.r.transpose());
  Svd<T> result{qr_a.q * core.u, std::move(core.s), qr_b.q * core.v};
  FixSigns(result);
  return result;
}

#define QKV_INSTANTIATE(T)                                    \
  template Svd<T> ThinSvd(const Matrix<T>&);                  \
  template Vector<T> ComputeSingularValues(const Matrix<T>&); \
  template Svd<T> ProductSvd(const Matrix<T>&, const Matrix<T>&);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::algebra::internal
