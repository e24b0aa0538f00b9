#include "qkv/nn/mask_head.h"

#include <algorithm>

#include "qkv/core/parallel.h"
#include "qkv/simd/gemm/matmul.h"

namespace qkv::nn {
namespace {

// Features that a convolution sums at a time, in registers.
constexpr int64_t kLanes = 16;

// The tokens around one, row by row; null outside of the grid.
template <typename T>
using Neighbours = std::array<const T*, 9>;

template <typename T>
void SmoothToken(const Neighbours<T>& from, const T* weights, int64_t D, T* to) {
  int64_t d = 0;
  for (; d + kLanes <= D; d += kLanes) {
    T sums[kLanes] = {};
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i] == nullptr) continue;
      const T *x = from[i] + d, *w = weights + static_cast<int64_t>(i) * D + d;
      for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += x[lane] * w[lane];
    }
    std::copy_n(sums, kLanes, to + d);
  }
  for (; d < D; ++d) {
    T sum = 0;
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i] != nullptr) sum += from[i][d] * weights[static_cast<int64_t>(i) * D + d];
    }
    to[d] = sum;
  }
}

// expanded: [height · width, 2, 2, D], four tokens for each of a grid; out: [4 · height · width, D], row by row.
template <typename T>
void Smooth(const T* expanded, int64_t height, int64_t width, const Tensor<T>& weights, View<T> out) {
  const int64_t D = out.dim(1);
  const auto at = [&](int64_t y, int64_t x) -> const T* {
    if (y < 0 || y >= 2 * height || x < 0 || x >= 2 * width) return nullptr;
    return expanded + (((y / 2 * width + x / 2) * 2 + y % 2) * 2 + x % 2) * D;
  };
  ParallelFor(2 * height, 1, [&](int64_t begin, int64_t end) {
    for (int64_t y = begin; y < end; ++y) {
      for (int64_t x = 0; x < 2 * width; ++x) {
        const Neighbours<T> around = {at(y - 1, x - 1), at(y - 1, x),     at(y - 1, x + 1), at(y, x - 1),    at(y, x),
                                      at(y, x + 1),     at(y + 1, x - 1), at(y + 1, x),     at(y + 1, x + 1)};
        SmoothToken<T>(around, weights.data(), D, out.row(y * 2 * width + x));
      }
    }
  });
}

// The patches on the grid of the masks: [4^doublings · patches, D].
template <typename T>
View<const T> Double(const MaskTokens<T>& tokens, const MaskHead<T>& head, Arena& arena) {
  const int64_t D = tokens.patches.dim(1), doublings = std::ssize(head.doublings);
  int64_t height = tokens.grid_height, width = tokens.grid_width;
  View<const T> x = tokens.patches;
  if (doublings == 0) return x;
  // The last two grids, and the last before it is smoothed.
  const int64_t pixels = (height << doublings) * (width << doublings);
  const View<T> expanded = arena.New<T>({pixels * D}), last = arena.New<T>({pixels * D}),
                before = arena.New<T>({pixels / 4 * D});
  for (int64_t i = 0; i < doublings; ++i) {
    const GridDoubling<T>& layer = head.doublings[static_cast<size_t>(i)];
    const View<T> four(expanded.data(), {height * width, 4 * D});
    LinearForward<T>(x, layer.expand, four, {.activation = head.activation});
    const View<T> out((doublings - i) % 2 == 1 ? last.data() : before.data(), {4 * height * width, D});
    Smooth<T>(four.data(), height, width, layer.smooth, out);
    NormForward<T>(out, layer.norm, out);
    x = out;
    height *= 2, width *= 2;
  }
  return x;
}

}  // namespace

template <typename T>
void MaskHeadForward(const MaskTokens<T>& tokens, const MaskHead<T>& head, View<T> classes, View<T> masks,
                     Arena& arena) {
  const int64_t Q = tokens.queries.dim(0), D = tokens.queries.dim(1), s = int64_t{1} << head.doublings.size();
  const int64_t height = s * tokens.grid_height, width = s * tokens.grid_width;
  Require(!head.empty() && tokens.queries.dense() && tokens.patches.dense() &&
              tokens.patches.shape() == Shape({tokens.grid_height * tokens.grid_width, D}),
          "mask head: expected patches [{}, {}], got {}", tokens.grid_height * tokens.grid_width, D,
          tokens.patches.shape());
  const Arena::Scope scope(arena);
  if (!classes.empty()) {
    Require(classes.shape() == Shape({Q, head.classes.weight.outputs()}) && classes.dense(),
            "mask head: classes are {}, expected [{}, {}], dense", classes.shape(), Q, head.classes.weight.outputs());
    LinearForward<T>(tokens.queries, head.classes, classes);
  }
  if (masks.empty()) return;
  Require(masks.shape() == Shape({Q, height, width}) && masks.dense(),
          "mask head: masks are {}, expected [{}, {}, {}], dense", masks.shape(), Q, height, width);
  const View<T> even = arena.New<T>({Q, D}), odd = arena.New<T>({Q, D});
  LinearForward<T>(tokens.queries, head.queries[0], even, {.activation = head.activation});
  LinearForward<T>(even, head.queries[1], odd, {.activation = head.activation});
  LinearForward<T>(odd, head.queries[2], even);
  const View<const T> pixels = Double<T>(tokens, head, arena);
  simd::MatMul<T>(even, simd::Transposed(pixels), masks.reshape({Q, height * width}));
}

template void MaskHeadForward(const MaskTokens<float>&, const MaskHead<float>&, View<float>, View<float>, Arena&);
template void MaskHeadForward(const MaskTokens<double>&, const MaskHead<double>&, View<double>, View<double>, Arena&);

}  // namespace qkv::nn
