// Rows of heads are stored token by token, [B, m, H, ·], if all heads read the same keys: the heads then act as
// additional queries. Queries, keys and values of separate heads are stored head by head.
#include "qkv/lab/plan_trial.h"

#include <algorithm>
#include <cmath>

#include "qkv/attention/attention.h"
#include "qkv/core/error.h"
#include "qkv/core/parallel.h"
#include "qkv/core/rng.h"
#include "qkv/simd/gemm/matmul.h"

namespace qkv::lab {
namespace {

using attention::Cached, attention::Order, attention::Plan, attention::Read, attention::Workload;

// Uniform numbers with this variance.
template <typename T>
Tensor<T> Random(const Shape& shape, double variance, uint64_t seed) {
  auto tensor = Tensor<T>::Uninitialised(shape);
  Rng rng(seed);
  const double width = std::sqrt(12 * variance);
  for (T& x : tensor.span()) x = static_cast<T>(width * (rng.Uniform() - 0.5));
  return tensor;
}

template <typename T>
View<const T> HeadRows(const Tensor<T>& matrix, int64_t head, int64_t width) {
  return matrix.view().slice(0, head * width, (head + 1) * width);
}
template <typename T>
View<const T> HeadColumns(const Tensor<T>& matrix, int64_t head, int64_t width) {
  return matrix.view().slice(1, head * width, (head + 1) * width);
}

// Views [H, B·n, width] as [B, H, n, width].
template <typename T>
View<T> SplitBatch(View<T> heads, int64_t B) {
  const int64_t H = heads.dim(0), n = heads.dim(1) / B, width = heads.dim(2);
  return View<T>(heads.data(), {B, H, n, width}, {n * width, B * n * width, width, 1});
}

// Views [B·m, H, width] as [B, H, m, width].
template <typename T>
View<T> HeadsOfTokens(View<T> rows, int64_t B) {
  const int64_t H = rows.dim(1), m = rows.dim(0) / B, width = rows.dim(2);
  return View<T>(rows.data(), {B, H, m, width}, {m * H * width, width, H * width, 1});
}

// One head of [B·m, H, width]: [B·m, width].
template <typename T>
View<T> HeadOfTokens(View<T> rows, int64_t h) {
  return View<T>(rows.at(0, h), {rows.dim(0), rows.dim(2)}, {rows.stride(0), 1});
}

// With at least this many of the heads × B products per thread, products are distributed whole.
constexpr int64_t kProductsPerThread = 4;

}  // namespace

template <typename T>
Trial<T>::Trial(const Workload& workload) : w_(workload) {
  PlanSteps({}, w_);  // validates the sizes
  const int64_t B = w_.batch, m = w_.queries, N = w_.keys, D = w_.width, S = w_.source(), H = w_.heads,
                E = w_.head_width, E_v = w_.values();
  const auto one_over = [](int64_t n) { return 1 / static_cast<double>(n); };
  uint64_t seed = 0;
  x_ = Random<T>({B * m, D}, 1, ++seed);
  w_q_ = Random<T>({H * E, D}, one_over(D) / std::sqrt(static_cast<double>(E)), ++seed);
  w_k_ = Random<T>({H * E, S}, one_over(S), ++seed);
  w_v_ = Random<T>({H * E_v, S}, one_over(S), ++seed);
  if (w_.projection) w_o_ = Random<T>({D, H * E_v}, one_over(H * E_v), ++seed);
  if (w_.cached == Cached::kLatent) latent_ = Matrix(Random<T>({S, D}, one_over(D), ++seed).view());
  if (w_.cached == Cached::kKeysAndValues) {
    key_cache_ = Random<T>({B, H, N, E}, 1, ++seed);
    value_cache_ = Random<T>({B, H, N, E_v}, 1, ++seed);
  } else {
    source_ = Random<T>({B, N, S}, 1, ++seed);
  }
}

template <typename T>
void Trial<T>::Prepare(const Plan& plan) {
  PlanSteps(plan, w_);  // validates the plan
  const int64_t D = w_.width, S = w_.source(), H = w_.heads, E = w_.head_width, E_v = w_.values();
  const auto pack = [](Matrix& to, View<const T> from) {
    if (to.outputs() == 0) to = Matrix(from);
  };
  const auto pack_heads = [&](Matrices& to, auto&& head) {
    for (int64_t h = static_cast<int64_t>(to.size()); h < H; ++h) to.emplace_back(head(h));
  };
  const auto merge = [&](Matrix& to, const Shape& shape, auto&& product) {
    if (to.outputs() > 0) return;
    Tensor<T> all(shape);
    for (int64_t h = 0; h < H; ++h) product(h, all);
    to = Matrix(all.view());
  };
  const auto rows = [](Tensor<T>& all, int64_t h, int64_t n) { return all.view().slice(0, h * n, (h + 1) * n); };
  switch (plan.scores) {
    case Order::kAbsorbed:
      pack_heads(query_carries_, [&](int64_t h) { return simd::Transposed(HeadRows(w_k_, h, E)); });
      [[fallthrough]];
    case Order::kProjected:
      pack(query_, w_q_);
      if (plan.scores == Order::kProjected) pack(key_, w_k_);
      break;
    case Order::kMerged:  // Mᵀ of each head, [S, D]
      merge(merged_, {H * S, D}, [&](int64_t h, Tensor<T>& all) {
        simd::MatMul<T>(simd::Transposed(HeadRows(w_k_, h, E)), HeadRows(w_q_, h, E), rows(all, h, S));
      });
      break;
    case Order::kKeysAbsorbed:
      pack(key_, w_k_);
      pack_heads(key_carries_, [&](int64_t h) { return simd::Transposed(HeadRows(w_q_, h, E)); });
      break;
    case Order::kKeysMerged:  // M of each head, [D, S]
      merge(keys_merged_, {H * D, S}, [&](int64_t h, Tensor<T>& all) {
        simd::MatMul<T>(simd::Transposed(HeadRows(w_q_, h, E)), HeadRows(w_k_, h, E), rows(all, h, D));
      });
      break;
  }
  if (w_.read == Read::kScores) return;
  if (w_.projection && (plan.outputs == Order::kProjected || plan.outputs == Order::kAbsorbed)) pack(output_, w_o_);
  switch (plan.outputs) {
    case Order::kProjected:
      pack(value_, w_v_);
      break;
    case Order::kAbsorbed:
      pack_heads(sum_carries_, [&](int64_t h) { return HeadRows(w_v_, h, E_v); });
      break;
    case Order::kMerged:  // [D, H·S]: the sum over heads is part of the product
      merge(output_merged_, {D, H * S}, [&](int64_t h, Tensor<T>& all) {
        simd::MatMul<T>(HeadColumns(w_o_, h, E_v), HeadRows(w_v_, h, E_v), all.view().slice(1, h * S, (h + 1) * S));
      });
      break;
    case Order::kKeysAbsorbed:
      pack(value_, w_v_);
      pack_heads(value_carries_, [&](int64_t h) { return HeadColumns(w_o_, h, E_v); });
      break;
    case Order::kKeysMerged:
      merge(values_merged_, {H * D, S}, [&](int64_t h, Tensor<T>& all) {
        simd::MatMul<T>(HeadColumns(w_o_, h, E_v), HeadRows(w_v_, h, E_v), rows(all, h, D));
      });
      break;
  }
}

// Multiplies rows of x by the weights of all heads: [H, rows, width].
template <typename T>
View<T> Trial<T>::ToHeads(View<const T> x, const Matrix& weights, int64_t width) {
  const int64_t rows = x.dim(0);
  const View<T> out = arena_.New<T>({w_.heads, rows, width});
  simd::Gemm<T>(x, weights, {}, View<T>(out.data(), {rows, w_.heads, width}, {width, rows * width, 1}));
  return out;
}

// Copies `made` [B, H, m, width] to the last places of the cache [B, H, N, width].
template <typename T>
void Trial<T>::FillLast(View<const T> made, View<T> cache) const {
  const int64_t m = made.dim(2), N = cache.dim(2), width = made.dim(3);
  for (int64_t b = 0; b < made.dim(0); ++b) {
    for (int64_t h = 0; h < made.dim(1); ++h) std::copy_n(made.at(b, h), m * width, cache.at(b, h, N - m));
  }
}

template <typename T>
View<const T> Trial<T>::Queries(Order order) {
  const int64_t B = w_.batch, m = w_.queries, D = w_.width, S = w_.source(), H = w_.heads;
  if (order == Order::kKeysAbsorbed || order == Order::kKeysMerged) {
    return View<const T>(x_.data(), {B, H, m, D}, {m * D, 0, D, 1});
  }
  if (order == Order::kMerged) {
    const View<T> out = arena_.New<T>({B * m, H, S});
    simd::Gemm<T>(x_, merged_, {}, out.reshape({B * m, H * S}));
    return HeadsOfTokens<const T>(out, B);
  }
  const View<T> query = ToHeads(x_, query_, w_.head_width);
  if (order == Order::kProjected) return SplitBatch<const T>(query, B);
  const View<T> carried = arena_.New<T>({B * m, H, S});
  for (int64_t h = 0; h < H; ++h) {
    simd::Gemm<T>(query[h], query_carries_[static_cast<size_t>(h)], {}, HeadOfTokens(carried, h));
  }
  return HeadsOfTokens<const T>(carried, B);
}

template <typename T>
View<const T> Trial<T>::KeysOrValues(Order order, const Side& side) {
  const int64_t B = w_.batch, N = w_.keys, D = w_.width, S = w_.source();
  if (order == Order::kAbsorbed || order == Order::kMerged) {  // the tokens or latents themselves, shared by every head
    return View<const T>(source_.data(), {B, w_.heads, N, S}, {N * S, 0, S, 1});
  }
  if (w_.cached == Cached::kKeysAndValues) {
    FillLast(SplitBatch<const T>(ToHeads(x_, side.weights, side.width), B), side.cache);
    return side.cache;
  }
  const View<const T> source(source_.data(), {B * N, S});
  if (order == Order::kKeysMerged) return SplitBatch<const T>(ToHeads(source, side.merged, D), B);
  const View<T> heads = ToHeads(source, side.weights, side.width);
  if (order == Order::kProjected) return SplitBatch<const T>(heads, B);
  const View<T> carrying = arena_.New<T>({w_.heads, B * N, D});
  for (int64_t h = 0; h < w_.heads; ++h) {
    simd::Gemm<T>(heads[h], side.carries[static_cast<size_t>(h)], {}, carrying[h]);
  }
  return SplitBatch<const T>(carrying, B);
}

template <typename T>
View<const T> Trial<T>::Scores(View<const T> q, View<const T> k) {
  const int64_t B = w_.batch, H = w_.heads, m = w_.queries, N = w_.keys;
  const bool one_head = k.stride(1) == 0;
  const View<T> out = arena_.New<T>({B, H, m, N});
  const auto product = [&](int64_t t) {
    const int64_t b = t / H, h = t % H;
    simd::MatMul<T>(q[b][h], simd::Transposed(k[b][h]), out[b][h]);
  };
  if (one_head) {
    const View<T> by_token(out.data(), {B, m * H, N});
    for (int64_t b = 0; b < B; ++b) {
      const View<const T> rows(q.at(b), {m * H, q.dim(3)});
      simd::MatMul<T>(rows, simd::Transposed(k[b][0]), by_token[b]);
    }
    return View<const T>(out.data(), {B, H, m, N}, {H * m * N, N, H * N, 1});
  }
  if (B * H >= kProductsPerThread * NumThreads()) {
    ParallelTasks(B * H, [&](int64_t t, int) { product(t); });
  } else {
    for (int64_t t = 0; t < B * H; ++t) product(t);
  }
  return out;
}

// Completes the outputs' chain. sums: [B·m, H, ·].
template <typename T>
View<const T> Trial<T>::Outputs(Order order, View<const T> sums) {
  const int64_t B = w_.batch, m = w_.queries, D = w_.width, H = w_.heads, E_v = w_.values(), width = sums.dim(2);
  View<const T> joined = sums;
  if (order == Order::kAbsorbed) {
    const View<T> carried = arena_.New<T>({B * m, H, E_v});
    for (int64_t h = 0; h < H; ++h) {
      simd::Gemm<T>(HeadOfTokens(sums, h), sum_carries_[static_cast<size_t>(h)], {}, HeadOfTokens(carried, h));
    }
    joined = carried;
  }
  const bool by_keys = order == Order::kKeysAbsorbed || order == Order::kKeysMerged;
  if (!by_keys && !w_.projection) return joined.reshape({B, m, H * E_v});
  if (by_keys && H == 1) return sums.reshape({B, m, D});
  const View<T> out = arena_.New<T>({B, m, D});
  const View<T> rows = out.reshape({B * m, D});
  if (!by_keys) {
    simd::Gemm<T>(joined.reshape({B * m, H * joined.dim(2)}), order == Order::kMerged ? output_merged_ : output_, {},
                  rows);
    return out;
  }
  ParallelFor(B * m, 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T* const to = rows.row(i);
      std::copy_n(sums.at(i), width, to);
      for (int64_t h = 1; h < H; ++h) {
        const T* const from = sums.at(i, h);
        for (int64_t d = 0; d < width; ++d) to[d] += from[d];
      }
    }
  });
  return out;
}

template <typename T>
View<const T> Trial<T>::Run(const Plan& plan) {
  arena_.Reset();
  const int64_t B = w_.batch, m = w_.queries, H = w_.heads;
  if (w_.cached == Cached::kLatent) {
    const View<T> made = arena_.New<T>({B, 1, m, w_.latent});
    simd::Gemm<T>(x_, latent_, {}, made.reshape({B * m, w_.latent}));
    FillLast(made, source_.view().reshape({B, 1, w_.keys, w_.latent}));
  }
  const View<const T> q = Queries(plan.scores);
  const View<const T> k =
      KeysOrValues(plan.scores, {w_.head_width, key_, keys_merged_, key_carries_, key_cache_.view()});
  if (w_.read == Read::kScores) return Scores(q, k);
  const View<const T> v =
      KeysOrValues(plan.outputs, {w_.values(), value_, values_merged_, value_carries_, value_cache_.view()});
  const int64_t width = v.dim(3);
  const View<T> sums = arena_.New<T>({B * m, H, width});
  attention::Options<T> options;
  options.scale = 1;
  if (k.stride(1) == 0 && v.stride(1) == 0) {
    const auto of_one_head = [](View<const T> shared) { return shared.slice(1, 0, 1); };
    attention::Attention<T>(View<const T>(q.data(), {B, 1, m * H, q.dim(3)}), of_one_head(k), of_one_head(v), options,
                            View<T>(sums.data(), {B, 1, m * H, width}), arena_);
  } else {
    attention::Attention<T>(q, k, v, options, HeadsOfTokens(sums, B), arena_);
  }
  return Outputs(plan.outputs, sums);
}

template class Trial<float>;
template class Trial<double>;

}  // namespace qkv::lab
