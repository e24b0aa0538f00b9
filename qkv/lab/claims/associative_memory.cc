#include "qkv/lab/claims/associative_memory.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "qkv/core/parallel.h"
#include "qkv/simd/rows/elementwise.h"

namespace qkv::lab {
namespace {

// Queries per task: enough to outweigh the cost of waking a thread.
constexpr int64_t kGrain = 16;

// Softmax of scores in place.
template <typename T>
void Weigh(T temperature, T* scores, int64_t n) {
  T best = -std::numeric_limits<T>::infinity();
  for (int64_t j = 0; j < n; ++j) best = scores[j] > best || std::isnan(scores[j]) ? scores[j] : best;
  if (temperature > 0) {
    // Subtract the maximum first: with a small temperature every score would become −infinity.
    if (std::isfinite(best)) {
      for (int64_t j = 0; j < n; ++j) scores[j] = (scores[j] - best) / temperature;
    }
    simd::Softmax(scores, n);
    return;
  }
  if (best == -std::numeric_limits<T>::infinity()) {
    std::fill_n(scores, n, T(0));
    return;
  }
  const auto ties = static_cast<T>(std::count(scores, scores + n, best));  // 0 if the best is NaN; NaN then propagates
  for (int64_t j = 0; j < n; ++j) scores[j] = (scores[j] == best ? T(1) : T(0)) / ties;
}

template <typename T>
bool DenseRows(View<T> m) {
  return m.rank() == 2 && (m.dim(1) == 1 || m.stride(1) == 1);
}

}  // namespace

template <typename T>
T Equality(const T* query, const T* key, int64_t E) {
  return std::equal(query, query + E, key) ? T(0) : -std::numeric_limits<T>::infinity();
}

template <typename T>
T Nearness(const T* query, const T* key, int64_t E) {
  T sum = 0;
  for (int64_t e = 0; e < E; ++e) sum += (query[e] - key[e]) * (query[e] - key[e]);
  return -sum / 2;
}

template <typename T>
T DotProduct(const T* query, const T* key, int64_t E) {
  T sum = 0;
  for (int64_t e = 0; e < E; ++e) sum += query[e] * key[e];
  return sum;
}

template <typename T>
void Recall(const Memory<T>& memory, View<const T> q, View<const T> k, View<const T> v, View<T> out, View<T> weights) {
  Require(DenseRows(q) && DenseRows(k) && q.dim(1) == k.dim(1),
          "recall: expected queries and keys of one width with dense rows, got {} and {}", q.shape(), k.shape());
  Require(DenseRows(v) && v.dim(0) == k.dim(0), "recall: expected {} values with dense rows, got {}", k.dim(0),
          v.shape());
  Require(DenseRows(out) && out.shape() == Shape({q.dim(0), v.dim(1)}),
          "recall: expected an output of [{}, {}], got {}", q.dim(0), v.dim(1), out.shape());
  Require(weights.empty() || (DenseRows(weights) && weights.shape() == Shape({q.dim(0), k.dim(0)})),
          "recall: expected weights of [{}, {}], got {}", q.dim(0), k.dim(0), weights.shape());
  Require(memory.temperature >= 0, "recall: expected a temperature of at least 0, got {}", memory.temperature);
  const int64_t N_k = k.dim(0), E = q.dim(1), E_v = v.dim(1);
  ParallelFor(q.dim(0), kGrain, [&](int64_t begin, int64_t end) {
    std::vector<T> own(weights.empty() ? static_cast<size_t>(N_k) : 0);
    for (int64_t i = begin; i < end; ++i) {
      T* w = weights.empty() ? own.data() : weights.row(i);
      for (int64_t j = 0; j < N_k; ++j) w[j] = memory.similarity(q.row(i), k.row(j), E);
      Weigh(memory.temperature, w, N_k);
      std::fill_n(out.row(i), E_v, T(0));
      for (int64_t j = 0; j < N_k; ++j) {
        for (int64_t e = 0; e < E_v; ++e) out.row(i)[e] += w[j] * v.row(j)[e];
      }
    }
  });
}

template <typename T>
void RecallHeads(const Memory<T>& memory, int64_t heads, View<const T> q, View<const T> k, View<const T> v,
                 View<T> out) {
  for (const View<const T>& m : {q, k, v, View<const T>(out)}) {
    Require(heads > 0 && m.rank() == 2 && m.dim(1) % heads == 0, "recall: expected features for {} heads, got {}",
            heads, m.shape());
  }
  const auto head = [heads](auto m, int64_t h) {
    const int64_t E = m.dim(1) / heads;
    return m.slice(1, h * E, (h + 1) * E);
  };
  for (int64_t h = 0; h < heads; ++h) Recall<T>(memory, head(q, h), head(k, h), head(v, h), head(out, h));
}

template <typename T>
Tensor<T> GridPositions(const Shape& grid) {
  Tensor<T> positions({grid.size(), grid.rank()});
  for (int64_t i = 0; i < grid.size(); ++i) {
    int64_t rest = i;
    for (int axis = grid.rank() - 1; axis >= 0; --axis) {
      positions[i * grid.rank() + axis] = static_cast<T>(rest % grid[axis]);
      rest /= grid[axis];
    }
  }
  return positions;
}

template <typename T>
void GaussianSmooth(View<const T> values, T bandwidth, View<T> out) {
  Require(values.rank() >= 2 && values.shape() == out.shape(),
          "gaussian smooth: expected values and output of one shape, with channels last, got {} and {}", values.shape(),
          out.shape());
  Require(bandwidth > 0, "gaussian smooth: expected a positive bandwidth, got {}", bandwidth);
  const int axes = values.rank() - 1;
  const Tensor<T> positions = GridPositions<T>(Shape(values.shape().extents().subspan(0, static_cast<size_t>(axes))));
  const Shape rows{positions.dim(0), values.dim(axes)};
  Recall<T>(SoftDictionary(bandwidth * bandwidth), positions, positions, values.reshape(rows), out.reshape(rows));
}

#define QKV_INSTANTIATE(T)                                                                                    \
  template T Equality(const T*, const T*, int64_t);                                                           \
  template T Nearness(const T*, const T*, int64_t);                                                           \
  template T DotProduct(const T*, const T*, int64_t);                                                         \
  template void Recall(const Memory<T>&, View<const T>, View<const T>, View<const T>, View<T>, View<T>);      \
  template void RecallHeads(const Memory<T>&, int64_t, View<const T>, View<const T>, View<const T>, View<T>); \
  template Tensor<T> GridPositions(const Shape&);                                                             \
  template void GaussianSmooth(View<const T>, T, View<T>);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::lab
