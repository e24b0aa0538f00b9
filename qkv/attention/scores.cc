#include "qkv/attention/scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "qkv/attention/head_scores.h"
#include "qkv/core/parallel.h"
#include "qkv/simd/gemm/matmul.h"

namespace qkv::attention {
namespace {

// Cap, bias and visibility of the products in `row`, row i of the task.
template <typename T>
void FinishRow(const simd::AttentionScores<T>& task, int64_t i, T* row, int64_t N_k) {
  constexpr T kUnseen = -std::numeric_limits<T>::infinity();
  const int64_t first = std::clamp<int64_t>(i + task.first, 0, task.keys);
  const int64_t end = std::clamp<int64_t>(i + task.visible, first, task.keys);
  std::fill_n(row, first, kUnseen), std::fill(row + end, row + N_k, kUnseen);
  const bool* const mask = task.mask ? task.mask + i * task.mask_stride : nullptr;
  const T* const bias = task.bias ? task.bias + i * task.bias_stride : nullptr;
  for (int64_t j = first; j < end; ++j) {
    T score = task.scale * row[j];
    if (task.soft_cap != 0) score = task.soft_cap * std::tanh(score / task.soft_cap);
    if (bias) score += bias[j * task.bias_key_stride];
    row[j] = mask && !mask[j * task.mask_key_stride] ? kUnseen : score;
  }
}

template <typename T>
void RowToWeights(T sink, T* row, int64_t n) {
  const T greatest = std::max(*std::max_element(row, row + n), sink);  // in this order a NaN is not lost
  if (std::isinf(greatest) && greatest < 0) {
    std::fill_n(row, n, T(0));
    return;
  }
  double sum = static_cast<double>(std::exp(sink - greatest));
  for (int64_t j = 0; j < n; ++j) {
    // Scores of +infinity share the weight.
    row[j] = std::isinf(greatest) ? T(row[j] == greatest) : std::exp(row[j] - greatest);
    sum += static_cast<double>(row[j]);
  }
  for (int64_t j = 0; j < n; ++j) row[j] = static_cast<T>(static_cast<double>(row[j]) / sum);
}

}  // namespace

template <typename T>
void Scores(View<const T> q, View<const T> k, const Options<T>& options, View<T> out) {
  CheckQueriesAndKeys(q, k);
  const int64_t B = q.dim(0), H = q.dim(1), N_q = q.dim(2), N_k = k.dim(2), E = q.dim(3), group = H / k.dim(1);
  Require(out.shape() == Shape({B, H, N_q, N_k}) && out.dense(), "attention: scores are {}, expected {}, dense",
          out.shape(), Shape({B, H, N_q, N_k}));
  CheckOptions(options, B, H, N_q, N_k);
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t h = 0; h < H; ++h) {
      const View<const T> queries(q.at(b, h), {N_q, E}, {q.stride(2), 1});
      const View<const T> keys(k.at(b, h / group), {N_k, E}, {k.stride(2), 1});
      const View<T> rows(out.at(b, h), {N_q, N_k});
      simd::MatMul<T>(queries, simd::Transposed(keys), rows);
      simd::AttentionScores<T> task;
      FillScores(q, k, options, b, h, 0, N_q, task);
      ParallelFor(N_q, 16, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) FinishRow(task, i, rows.row(i), N_k);
      });
    }
  }
}

template <typename T>
void ScoresToWeights(View<const T> sinks, View<T> scores) {
  const int64_t H = scores.dim(1), N_q = scores.dim(2), N_k = scores.dim(3);
  Require(sinks.empty() || sinks.size() == H, "attention: {} sinks of {} heads", sinks.size(), H);
  ParallelFor(scores.dim(0) * H * N_q, 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T sink = sinks.empty() ? -std::numeric_limits<T>::infinity() : *sinks.at(i / N_q % H);
      RowToWeights(sink, scores.data() + i * N_k, N_k);
    }
  });
}

template <typename T>
void SumByWeights(View<const T> weights, View<const T> value, View<T> sums) {
  const int64_t H = weights.dim(1), Nq = weights.dim(2), N = weights.dim(3), E = value.dim(3);
  const int64_t groups = H / value.dim(1);
  ParallelFor(weights.dim(0) * H, 1, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const int64_t b = at / H, head = at % H;
      for (int64_t i = 0; i < Nq; ++i) {
        const T* const row = weights.at(b, head, i);
        T* const sum = sums.at(b, head, i);
        std::fill_n(sum, E, T(0));
        for (int64_t j = 0; j < N; ++j) {
          if (row[j] == 0) continue;  // also what lies after the source's end
          const T* const from = value.at(b, head / groups, j);
          for (int64_t e = 0; e < E; ++e) sum[e] += row[j] * from[e];
        }
      }
    }
  });
}

#define QKV_INSTANTIATE(T)                                                        \
  template void Scores(View<const T>, View<const T>, const Options<T>&, View<T>); \
  template void ScoresToWeights(View<const T>, View<T>);                          \
  template void SumByWeights(View<const T>, View<const T>, View<T>);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::attention
