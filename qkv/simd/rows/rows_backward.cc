// Gradients of norms, and sums over the rows of a matrix.
#include <algorithm>

#include "qkv/simd/rows/elementwise_backward.h"
#include "qkv/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/simd/rows/rows_backward.cc"
#include "hwy/foreach_target.h"
//
#include "qkv/simd/dispatch.h"
#include "qkv/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {
namespace {

// Rows summed in registers before the sum is added to memory: rounding errors grow with the chain's length, and this
// many rows of a model stay in L2 while their columns are processed.
constexpr int64_t kRowsPerSum = 64;

// to[i] += factor · Σ_r of the rows' terms, where term(sum, r, place) is sum + the term of row r. Each column is one
// chain, for any number of columns.
template <typename T, class Term>
HWY_INLINE void SumRows(int64_t rows, int64_t columns, T factor, T* to, Term term) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto vfactor = hn::Set(d, factor);
  for (int64_t begin = 0; begin < rows; begin += kRowsPerSum) {
    const int64_t end = std::min(rows, begin + kRowsPerSum);
    int64_t i = 0;
    for (; i + 4 * lanes <= columns; i += 4 * lanes) {  // four columns hide the latency of addition
      const WholeVector<T> at0{i}, at1{i + lanes}, at2{i + 2 * lanes}, at3{i + 3 * lanes};
      auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
      for (int64_t r = begin; r < end; ++r) {
        sum0 = term(sum0, r, at0);
        sum1 = term(sum1, r, at1);
        sum2 = term(sum2, r, at2);
        sum3 = term(sum3, r, at3);
      }
      at0.Store(hn::MulAdd(vfactor, sum0, at0.Load(to)), to);
      at1.Store(hn::MulAdd(vfactor, sum1, at1.Load(to)), to);
      at2.Store(hn::MulAdd(vfactor, sum2, at2.Load(to)), to);
      at3.Store(hn::MulAdd(vfactor, sum3, at3.Load(to)), to);
    }
    ForVectors<T>(i, columns, [&](auto at) HWY_ATTR {
      auto sum = hn::Zero(d);
      for (int64_t r = begin; r < end; ++r) sum = term(sum, r, at);
      at.Store(hn::MulAdd(vfactor, sum, at.Load(to)), to);
    });
  }
}

template <typename T>
HWY_INLINE void SumOfRows(const T* x, int64_t x_stride, int64_t rows, int64_t columns, T* sum) {
  SumRows(rows, columns, T{1}, sum,
          [=](auto so_far, int64_t r, auto at) HWY_ATTR { return hn::Add(so_far, at.Load(x + r * x_stride)); });
}

template <typename T>
HWY_INLINE void SumOfProducts(const T* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t rows, int64_t columns,
                              T factor, T* sum) {
  SumRows(rows, columns, factor, sum, [=](auto so_far, int64_t r, auto at) HWY_ATTR {
    return hn::MulAdd(at.Load(a + r * a_stride), at.Load(b + r * b_stride), so_far);
  });
}

// x̂ of a row.
template <typename T>
struct Normaliser {
  hn::Vec<hn::ScalableTag<T>> mean, rstd;

  explicit HWY_INLINE Normaliser(const T* moments)
      : mean(hn::Set(hn::ScalableTag<T>(), moments[0])), rstd(hn::Set(hn::ScalableTag<T>(), moments[1])) {}
  HWY_INLINE hn::Vec<hn::ScalableTag<T>> operator()(hn::Vec<hn::ScalableTag<T>> x) const {
    return hn::Mul(hn::Sub(x, mean), rstd);
  }
};

template <typename T>
HWY_INLINE void ParameterGradients(const NormedRows<T>& of, int64_t columns, T* dgamma, T* dbeta) {
  if (dgamma) {
    SumRows(of.rows, columns, T{1}, dgamma, [&of](auto so_far, int64_t r, auto at) HWY_ATTR {
      const Normaliser<T> normalise(of.moments + 2 * r);
      return hn::MulAdd(at.Load(of.dy + r * of.dy_stride), normalise(at.Load(of.x + r * of.x_stride)), so_far);
    });
  }
  if (dbeta) SumOfRows(of.dy, of.dy_stride, of.rows, columns, dbeta);
}

// Sums over a row of g and of g · x̂. Lanes past its end are 0 in dy.
template <typename T>
struct GradientSums {
  using V = hn::Vec<hn::ScalableTag<T>>;
  V g, product;

  HWY_INLINE GradientSums() : g(hn::Zero(hn::ScalableTag<T>())), product(g) {}
  HWY_INLINE void Add(V gradient, V normalised) {
    g = hn::Add(g, gradient);
    product = hn::MulAdd(gradient, normalised, product);
  }
};

template <bool kGamma, bool kAdd, typename T>
HWY_INLINE void GradientOfRow(const T* x, const T* moments, const T* gamma, const T* dy, int64_t D, NormKind kind,
                              T* dx) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Normaliser<T> normalise(moments);
  const auto gradient = [&](auto at) HWY_ATTR {
    if constexpr (kGamma) {
      return hn::Mul(at.Load(dy), at.Load(gamma));
    } else {
      return at.Load(dy);
    }
  };
  GradientSums<T> even, odd;  // two of each hide the latency of addition
  const auto add = [&](GradientSums<T>& sums, auto at) HWY_ATTR { sums.Add(gradient(at), normalise(at.Load(x))); };
  int64_t i = 0;
  for (; i + 2 * lanes <= D; i += 2 * lanes) {
    add(even, WholeVector<T>{i});
    add(odd, WholeVector<T>{i + lanes});
  }
  ForVectors<T>(i, D, [&](auto at) HWY_ATTR { add(even, at); });
  const T g_sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(even.g, odd.g)));
  const T product_sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(even.product, odd.product)));
  const auto g_mean = hn::Set(d, kind == NormKind::kLayer ? g_sum / static_cast<T>(D) : T{0}),
             product_mean = hn::Set(d, product_sum / static_cast<T>(D));
  ForVectors<T>(0, D, [&](auto at) HWY_ATTR {
    const auto centred = hn::Sub(gradient(at), g_mean);
    const auto v = hn::NegMulAdd(normalise(at.Load(x)), product_mean, centred);
    if constexpr (kAdd) {
      at.Store(hn::MulAdd(normalise.rstd, v, at.Load(dx)), dx);
    } else {
      at.Store(hn::Mul(normalise.rstd, v), dx);
    }
  });
}

template <bool kGamma, bool kAdd, typename T>
HWY_NOINLINE void GradientOfRows(const NormedRows<T>& of, int64_t D, const T* gamma, T* dx, int64_t dx_stride) {
  for (int64_t r = 0; r < of.rows; ++r) {
    GradientOfRow<kGamma, kAdd>(of.x + r * of.x_stride, of.moments + 2 * r, gamma, of.dy + r * of.dy_stride, D, of.kind,
                                dx + r * dx_stride);
  }
}

template <typename T>
HWY_INLINE void Gradient(const NormedRows<T>& of, int64_t D, const T* gamma, T* dx, int64_t dx_stride, bool add) {
  if (gamma) {
    add ? GradientOfRows<true, true>(of, D, gamma, dx, dx_stride)
        : GradientOfRows<true, false>(of, D, gamma, dx, dx_stride);
  } else {
    add ? GradientOfRows<false, true>(of, D, gamma, dx, dx_stride)
        : GradientOfRows<false, false>(of, D, gamma, dx, dx_stride);
  }
}

}  // namespace

void NormGradientFloat(const NormedRows<float>& of, int64_t D, const float* gamma, float* dx, int64_t dx_stride,
                       bool add) {
  Gradient(of, D, gamma, dx, dx_stride, add);
}
void NormGradientDouble(const NormedRows<double>& of, int64_t D, const double* gamma, double* dx, int64_t dx_stride,
                        bool add) {
  Gradient(of, D, gamma, dx, dx_stride, add);
}

void AddNormParameterGradientsFloat(const NormedRows<float>& of, int64_t columns, float* dgamma, float* dbeta) {
  ParameterGradients(of, columns, dgamma, dbeta);
}
void AddNormParameterGradientsDouble(const NormedRows<double>& of, int64_t columns, double* dgamma, double* dbeta) {
  ParameterGradients(of, columns, dgamma, dbeta);
}

void AddRowsFloat(const float* x, int64_t x_stride, int64_t rows, int64_t columns, float* sum) {
  SumOfRows(x, x_stride, rows, columns, sum);
}
void AddRowsDouble(const double* x, int64_t x_stride, int64_t rows, int64_t columns, double* sum) {
  SumOfRows(x, x_stride, rows, columns, sum);
}

void AddRowProductsFloat(const float* a, int64_t a_stride, const float* b, int64_t b_stride, int64_t rows,
                         int64_t columns, float factor, float* sum) {
  SumOfProducts(a, a_stride, b, b_stride, rows, columns, factor, sum);
}
void AddRowProductsDouble(const double* a, int64_t a_stride, const double* b, int64_t b_stride, int64_t rows,
                          int64_t columns, double factor, double* sum) {
  SumOfProducts(a, a_stride, b, b_stride, rows, columns, factor, sum);
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::simd {

HWY_EXPORT(NormGradientFloat);
HWY_EXPORT(NormGradientDouble);
HWY_EXPORT(AddNormParameterGradientsFloat);
HWY_EXPORT(AddNormParameterGradientsDouble);
HWY_EXPORT(AddRowsFloat);
HWY_EXPORT(AddRowsDouble);
HWY_EXPORT(AddRowProductsFloat);
HWY_EXPORT(AddRowProductsDouble);

template <>
void NormGradient(const NormedRows<float>& of, int64_t D, const float* gamma, float* dx, int64_t dx_stride, bool add) {
  QKV_DISPATCH(NormGradientFloat)(of, D, gamma, dx, dx_stride, add);
}
template <>
void NormGradient(const NormedRows<double>& of, int64_t D, const double* gamma, double* dx, int64_t dx_stride,
                  bool add) {
  QKV_DISPATCH(NormGradientDouble)(of, D, gamma, dx, dx_stride, add);
}

template <>
void AddNormParameterGradients(const NormedRows<float>& of, int64_t columns, float* dgamma, float* dbeta) {
  QKV_DISPATCH(AddNormParameterGradientsFloat)(of, columns, dgamma, dbeta);
}
template <>
void AddNormParameterGradients(const NormedRows<double>& of, int64_t columns, double* dgamma, double* dbeta) {
  QKV_DISPATCH(AddNormParameterGradientsDouble)(of, columns, dgamma, dbeta);
}

template <>
void AddRows(const float* x, int64_t x_stride, int64_t rows, int64_t columns, float* sum) {
  QKV_DISPATCH(AddRowsFloat)(x, x_stride, rows, columns, sum);
}
template <>
void AddRows(const double* x, int64_t x_stride, int64_t rows, int64_t columns, double* sum) {
  QKV_DISPATCH(AddRowsDouble)(x, x_stride, rows, columns, sum);
}

template <>
void AddRowProducts(const float* a, int64_t a_stride, const float* b, int64_t b_stride, int64_t rows, int64_t columns,
                    float factor, float* sum) {
  QKV_DISPATCH(AddRowProductsFloat)(a, a_stride, b, b_stride, rows, columns, factor, sum);
}
template <>
void AddRowProducts(const double* a, int64_t a_stride, const double* b, int64_t b_stride, int64_t rows, int64_t columns,
                    double factor, double* sum) {
  QKV_DISPATCH(AddRowProductsDouble)(a, a_stride, b, b_stride, rows, columns, factor, sum);
}

}  // namespace qkv::simd
#endif  // HWY_ONCE
