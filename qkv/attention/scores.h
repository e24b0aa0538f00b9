// Attention in its steps, for callers that look into them: the scores, the weights from scores, and the sums. Slower
// than the fused call, and with memory for N_q · N_k. Not here: the fused call (attention.h).
#pragma once

#include "qkv/attention/attention.h"
#include "qkv/core/tensor.h"

namespace qkv::attention {

/// The scores before the softmax, cap(scale · q kᵀ) + bias, and −infinity where a query does not see a key. q:
/// [B, H, N_q, E]; k: [B, H_kv, N_k, E]; out: [B, H, N_q, N_k], dense. Throws Error if the shapes do not fit.
template <typename T>
void Scores(View<const T> q, View<const T> k, const Options<T>& options, View<T> out);

/// Replaces scores [B, H, N_q, N_k], dense, by their softmax over the keys. sinks: [H], as Options::sinks, or empty. A
/// row of −infinity becomes zeros.
template <typename T>
void ScoresToWeights(View<const T> sinks, View<T> scores);

/// sums[b, h, i] = Σ_j weights[b, h, i, j] v[b, g, j], with the group g of head h. weights: [B, H, N_q, N_k], dense; v:
/// [B, H_kv, N_k, E]; sums: [B, H, N_q, E], with a dense last axis. Values of weight 0 are not read.
template <typename T>
void SumByWeights(View<const T> weights, View<const T> v, View<T> sums);

}  // namespace qkv::attention
