#include "qkv/nn/rotary.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "qkv/core/parallel.h"
#include "qkv/nn/ranges.h"
#include "qkv/simd/rows/rotary.h"

namespace qkv::nn {

RotaryTable::RotaryTable(int64_t length, int64_t E, double base) {
  Require(length > 0 && E > 0 && E % 2 == 0 && base > 0,
          "rotary positions: expected an even number of features and a positive base, got {} features and {}", E, base);
  exact_ = Tensor<double>::Uninitialised({length, 2, E}), single_ = Tensor<float>::Uninitialised({length, 2, E});
  for (int64_t p = 0; p < length; ++p) {
    double *cosines = exact_.view().at(p, 0), *sines = exact_.view().at(p, 1);
    for (int64_t e = 0; e < E; e += 2) {
      const double angle = static_cast<double>(p) * std::pow(base, -static_cast<double>(e) / static_cast<double>(E));
      cosines[e] = cosines[e + 1] = std::cos(angle);
      sines[e + 1] = std::sin(angle), sines[e] = -sines[e + 1];
    }
  }
  std::copy_n(exact_.data(), exact_.size(), single_.data());
}

template <typename T>
View<const T> RotaryTable::table() const {
  if constexpr (std::is_same_v<T, float>) {
    return single_;
  } else {
    return exact_;
  }
}

template <typename T>
void TurnRows(View<const T> x, int64_t N, const RotaryTable& table, int64_t first, Turn turn, View<T> y) {
  const int64_t E = table.width();
  Require(x.shape() == y.shape() && x.rank() == 2 && x.dim(1) % E == 0 && N > 0 && x.dim(0) % N == 0 && first >= 0 &&
              first + N <= table.length(),
          "rotary positions: {} and {} do not fit {} features at places {} to {} of {}", x.shape(), y.shape(), E, first,
          first + N - 1, table.length());
  ForRowRanges(x.dim(0), x.dim(1), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin, next = begin; row < end; row = next) {
      next = std::min(end, (row / N + 1) * N);  // of the same sequence
      simd::TurnPairs<T>({x.row(row), x.stride(0), table.table<T>().at(first + row % N), next - row, x.dim(1) / E, E,
                          y.row(row), y.stride(0)},
                         turn == Turn::kBack);
    }
  });
}

template <typename T>
void TurnHeads(View<const T> x, const RotaryTable& table, int64_t first, View<T> y) {
  const int64_t E = table.width(), H = x.dim(1), N = x.dim(2);
  Require(x.shape() == y.shape() && x.rank() == 4 && x.dim(3) == E && first >= 0 && first + N <= table.length(),
          "rotary positions: {} and {} do not fit {} features at places {} to {} of {}", x.shape(), y.shape(), E, first,
          first + N - 1, table.length());
  const int64_t heads_a_task = std::max<int64_t>(1, kElementsPerTask / (N * E));
  ParallelFor(x.dim(0) * H, heads_a_task, [&](int64_t begin, int64_t end) {
    for (int64_t head = begin; head < end; ++head) {
      simd::TurnPairs<T>({x.at(head / H, head % H), x.stride(2), table.table<T>().at(first), N, 1, E,
                          y.at(head / H, head % H), y.stride(2)},
                         false);
    }
  });
}

template View<const float> RotaryTable::table() const;
template View<const double> RotaryTable::table() const;
template void TurnRows(View<const float>, int64_t, const RotaryTable&, int64_t, Turn, View<float>);
template void TurnRows(View<const double>, int64_t, const RotaryTable&, int64_t, Turn, View<double>);
template void TurnHeads(View<const float>, const RotaryTable&, int64_t, View<float>);
template void TurnHeads(View<const double>, const RotaryTable&, int64_t, View<double>);

}  // namespace qkv::nn
