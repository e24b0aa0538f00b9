#include "qkv/nn/training/difference.h"

#include <algorithm>
#include <numeric>

#include "qkv/nn/ranges.h"

namespace qkv::nn {
namespace {

// The rows of all heads, [R·H, E].
template <typename T>
View<T> OfHeads(View<T> matrix, int64_t E) {
  return matrix.reshape({matrix.size() / E, E});
}

}  // namespace

template <typename T>
void DifferenceForward(const LambdaVectors<const T>& vectors, const NormParameters<const T>& norm, int64_t block,
                       DifferenceCache<T>& cache, View<T> joined, Arena& arena) {
  const int64_t R = joined.dim(0), width = joined.dim(1), E = norm.gamma.size();
  cache.lambda = Lambda<T>(vectors, block), cache.difference = arena.New<T>(joined.shape());
  const T lambda = static_cast<T>(cache.lambda), scale = static_cast<T>(1 - LambdaInit(block));
  ForRowRanges(R, width, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * width; i < end * width; ++i) {
      cache.difference.data()[i] = cache.maps[0].data()[i] - lambda * cache.maps[1].data()[i];
    }
  });
  const View<T> gamma = arena.New<T>({E});
  for (int64_t e = 0; e < E; ++e) gamma.data()[e] = scale * norm.gamma.data()[e];
  cache.scaled = {gamma, {}, norm.kind, norm.eps};
  cache.moments = arena.New<T>({R * width / E, 2});
  NormForward<T>(OfHeads(cache.difference, E), cache.scaled, OfHeads(joined, E), cache.moments);
}

template <typename T>
void DifferenceBackward(const LambdaVectors<const T>& vectors, int64_t block, const DifferenceCache<T>& cache,
                        View<const T> djoined, const LambdaVectors<T>& d, const NormParameters<T>& dnorm,
                        const View<T> (&dmaps)[2], Arena& arena) {
  const int64_t R = djoined.dim(0), width = djoined.dim(1), E = cache.scaled.gamma.size();
  NormParameters<T> dscaled = {arena.New<T>({E}), {}, cache.scaled.kind, cache.scaled.eps};
  std::fill_n(dscaled.gamma.data(), E, T(0));
  NormBackward<T>(OfHeads(cache.difference, E), cache.moments, cache.scaled, OfHeads(djoined, E), OfHeads(dmaps[0], E),
                  false, dscaled);
  const T scale = static_cast<T>(1 - LambdaInit(block)), lambda = static_cast<T>(cache.lambda);
  for (int64_t e = 0; e < dnorm.gamma.size(); ++e) dnorm.gamma.data()[e] += scale * dscaled.gamma.data()[e];
  const View<double> of_rows = arena.New<double>({R});  // summed in their order, whatever the number of threads
  ForRowRanges(R, width, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T *first = dmaps[0].row(row), *attended = cache.maps[1].row(row);
      T* const second = dmaps[1].row(row);
      double sum = 0;
      for (int64_t i = 0; i < width; ++i) {
        sum += static_cast<double>(first[i]) * static_cast<double>(attended[i]);
        second[i] = -lambda * first[i];
      }
      of_rows.data()[row] = sum;
    }
  });
  LambdaBackward<T>(vectors, -std::accumulate(of_rows.data(), of_rows.data() + R, 0.0), d);
}

#define QKV_INSTANTIATE(T)                                                                                           \
  template void DifferenceForward(const LambdaVectors<const T>&, const NormParameters<const T>&, int64_t,            \
                                  DifferenceCache<T>&, View<T>, Arena&);                                             \
  template void DifferenceBackward(const LambdaVectors<const T>&, int64_t, const DifferenceCache<T>&, View<const T>, \
                                   const LambdaVectors<T>&, const NormParameters<T>&, const View<T>(&)[2], Arena&);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::nn
