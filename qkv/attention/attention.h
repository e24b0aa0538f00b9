// Scaled dot-product attention (Vaswani et al. 2017, eq. 1) with its usual options: the fused call, whose memory does
// not grow with N_q · N_k, its gradient, and the weights on request. Not here: projections (nn/attention.h).
#pragma once

#include <cstdint>

#include "qkv/core/arena.h"
#include "qkv/core/tensor.h"

namespace qkv::attention {

/// Causal order of queries and keys.
enum class Causal {
  kNone,
  kTopLeft,      // query i sees keys j <= i
  kBottomRight,  // query i sees keys j <= i + L − N_q, L keys in all; the last query sees all, as in decoding
};

/// Options beyond the plain softmax(q kᵀ / sqrt(E)) v.
/// A query sees a key if all of causal, window, key length, mask and bias allow it. Query i has position
/// i + first_position or, with Causal::kBottomRight, i + first_position + L − N_q, where L is the number of keys of its
/// batch entry.
template <typename T>
struct Options {
  T scale = 0;                    // of the scores; 0: 1 / sqrt(E)
  Causal causal = Causal::kNone;  // which keys a query sees by its position
  T soft_cap = 0;                 // scores become soft_cap · tanh(scores / soft_cap) (Gemma 2); 0: off
  View<const T> bias = {};        // added to the scores after the soft cap: [B|1, H|1, N_q|1, N_k], or empty
  View<const bool> mask = {};     // true where attention is allowed: [B|1, H|1, N_q|1, N_k], or empty
  // Batch entry b has only its first key_lengths[b] keys, 0 to N_k: [B], or empty for all N_k. The forward pass does
  // not read the keys after them, and its result has the same bits as without them. The gradient reads some of them, so
  // they must be finite, and sets their dk and dv to zero.
  View<const int64_t> key_lengths = {};
  // The query at position p sees keys p − window_left to p + window_right; −1: no limit. Causal limits the right side
  // to 0. Blocks of keys that no query of a tile sees are skipped, as with causal and key lengths; a mask skips none.
  int64_t window_left = -1;
  int64_t window_right = -1;  // see window_left
  // Added to the positions of the queries, at most 2^59 either way: with kTopLeft the number of cached keys that
  // precede the queries, if more keys than the queries' own follow them. A query before all keys sees none.
  int64_t first_position = 0;
  // Attention sinks: [H], or empty. The sink of a head is a learned score that takes part in the sum of each row's
  // softmax, but has no value: the weights of the keys sum to less than 1, and a row without visible keys still gives
  // zeros (Agarwal et al. 2025, gpt-oss). Soft cap, bias and scale do not apply to it; −infinity is no sink.
  View<const T> sinks = {};
  T dropout = 0;            // probability that a weight becomes 0; the others are divided by 1 − dropout
  uint64_t seed = 0;        // of the dropout: the same seed drops the same weights in both passes and on any machine
  int64_t first_batch = 0;  // index of batch entry 0 in the whole batch, if this is a part of it; selects its dropout
  // Float only: operands of products (queries, keys, values, weights and their gradients) may be rounded to bfloat16 if
  // the processor has instructions for it (AMX, AVX-512 BF16). Sums and softmax stay float. Few queries, as in
  // decoding, are multiplied in float in both passes, because rounding a head's keys and values takes longer than their
  // products.
  bool bf16 = false;
};

/// out = softmax(mask(cap(scale · q kᵀ) + bias)) v, for every batch entry and head.
/// q: [B, H, N_q, E]; k: [B, H_kv, N_k, E]; v: [B, H_kv, N_k, E_v]; out: [B, H, N_q, E_v]; H is a multiple of H_kv
/// (H_kv = 1: multi-query; between: grouped-query, heads in order). Any strides with a dense last axis. A fully masked
/// row gives zeros. Several scores of +infinity share the weight equally. `lse`, if not empty, receives log Σ exp of
/// each row's scores, the sink's included: [B, H, N_q]. Throws Error if the shapes do not fit.
template <typename T>
void Attention(View<const T> q, View<const T> k, View<const T> v, const Options<T>& options, View<T> out, Arena& arena,
               View<T> lse = {});

/// Inputs and outputs of the gradient. Any strides with a dense last axis (dbias: any). Outputs must not overlap any
/// other tensor.
template <typename T>
struct BackwardTensors {
  View<const T> q, k, v;  // inputs of Attention
  View<const T> out;      // [B, H, N_q, E_v], output of Attention
  View<const T> lse;      // [B, H, N_q], output of Attention
  View<const T> dout;     // [B, H, N_q, E_v]: gradient of the loss with respect to out
  View<T> dq, dk, dv;     // shaped as q, k, v; overwritten
  View<T> dbias;          // shaped as options.bias, summed over the axes it was broadcast along; or empty
  View<T> dsinks;         // shaped as options.sinks, summed over batch entries and queries; or empty
};

/// The gradient of Attention, with the same options, by the formulas of Dao et al. 2022 (§B.4): weights are recomputed
/// from the log-sum-exp, so memory grows with N_q + N_k, not with N_q · N_k. Fully masked rows have zero gradients and
/// contribute none; masked keys must still be finite; a row with a score of +infinity gives NaN. Same bits in every run
/// and for any number of threads; another instruction set rounds differently. Throws Error if the shapes do not fit.
template <typename T>
void AttentionBackward(const BackwardTensors<T>& tensors, const Options<T>& options, Arena& arena);

/// The softmax weights of the keys, before dropout, of query rows [row_begin, row_end):
/// out[B, H, row_end − row_begin, N_k], any strides with a dense last axis. Costs row_end − row_begin rows of N_k
/// values, not N_q · N_k.
template <typename T>
void AttentionWeights(View<const T> q, View<const T> k, const Options<T>& options, int64_t row_begin, int64_t row_end,
                      View<T> out);

/// Naive attention in double precision: the oracle of the fused call.
void ReferenceAttention(View<const double> q, View<const double> k, View<const double> v,
                        const Options<double>& options, View<double> out, View<double> weights = {});

/// Naive gradient in double precision: the oracle of AttentionBackward. Does not read `out` and `lse`.
void ReferenceAttentionBackward(const BackwardTensors<double>& tensors, const Options<double>& options);

}  // namespace qkv::attention
