// Scaled dot-product attention (Vaswani et al. 2017, eq. 1) with all the options of the field: the fused call, whose
// memory does not grow with N_q · N_k, and the weights themselves for those who ask for them.
// Not here: projections (nn/attention.h), gradients.
#pragma once

#include <cstdint>

#include "qkv/core/arena.h"
#include "qkv/core/tensor.h"

namespace qkv::attention {

enum class Causal {
  kNone,
  kTopLeft,      // query i sees keys j <= i
  kBottomRight,  // query i sees keys j <= i + N_k − N_q: the last query sees all, as in decoding
};

template <typename T>
struct Options {
  T scale = 0;  // of the scores; 0 means 1 / sqrt(E)
  Causal causal = Causal::kNone;
  T soft_cap = 0;         // scores become soft_cap · tanh(scores / soft_cap) (Gemma 2); 0 means off
  View<const T> bias;     // added to the scores after the soft cap: [B|1, H|1, N_q|1, N_k], or empty
  View<const bool> mask;  // true where attention is allowed: [B|1, H|1, N_q|1, N_k], or empty
};

/// out = softmax(mask(cap(scale · q kᵀ) + bias)) v, for every batch entry and head.
/// q: [B, H, N_q, E]; k: [B, H_kv, N_k, E]; v: [B, H_kv, N_k, E_v]; out: [B, H, N_q, E_v]; H is a multiple of H_kv
/// (H_kv = 1: multi-query; between: grouped-query, heads in order). Any strides but a dense last axis.
/// A fully masked row gives zeros. Several scores of +infinity share the weight equally.
/// `lse`, when not empty, gets log Σ exp of each row's scores: [B, H, N_q].
/// Throws Error when the shapes do not fit.
template <typename T>
void Attention(View<const T> q, View<const T> k, View<const T> v, const Options<T>& options, View<T> out, Arena& arena,
               View<T> lse = {});

/// The softmaxed weights of the given query rows: out[B, H, row_end − row_begin, N_k], any strides but a dense last
/// axis. Costs row_end − row_begin rows of N_k values, not N_q · N_k.
template <typename T>
void AttentionWeights(View<const T> q, View<const T> k, const Options<T>& options, int64_t row_begin, int64_t row_end,
                      View<T> out);

/// The same, composed naively in double precision: the oracle of the fused call.
void ReferenceAttention(View<const double> q, View<const double> k, View<const double> v,
                        const Options<double>& options, View<double> out, View<double> weights = {});

}  // namespace qkv::attention
