#include "qkv/nn/difference.h"

#include <cmath>

namespace qkv::nn {
namespace {

// exp(q_m·k_m) of map m.
template <typename T>
double Exponential(const LambdaVectors<const T>& vectors, size_t map) {
  double product = 0;
  for (int64_t i = 0; i < vectors.query[map].size(); ++i) {
    product += static_cast<double>(vectors.query[map].data()[i]) * static_cast<double>(vectors.key[map].data()[i]);
  }
  return std::exp(product);
}

}  // namespace

double LambdaInit(int64_t block) { return 0.8 - 0.6 * std::exp(-0.3 * static_cast<double>(block)); }

template <typename T>
double Lambda(const LambdaVectors<const T>& vectors, int64_t block) {
  return Exponential(vectors, 0) - Exponential(vectors, 1) + LambdaInit(block);
}

template <typename T>
void LambdaBackward(const LambdaVectors<const T>& vectors, double dlambda, const LambdaVectors<T>& d) {
  for (size_t map = 0; map < 2 && !d.empty(); ++map) {
    const double factor = (map == 0 ? dlambda : -dlambda) * Exponential(vectors, map);
    for (int64_t i = 0; i < vectors.query[map].size(); ++i) {
      d.query[map].data()[i] += static_cast<T>(factor * static_cast<double>(vectors.key[map].data()[i]));
      d.key[map].data()[i] += static_cast<T>(factor * static_cast<double>(vectors.query[map].data()[i]));
    }
  }
}

#define QKV_INSTANTIATE(T)                                        \
  template double Lambda(const LambdaVectors<const T>&, int64_t); \
  template void LambdaBackward(const LambdaVectors<const T>&, double, const LambdaVectors<T>&);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::nn
