// The ancestors of attention in one form: a query returns a mean of values, weighted by the similarity of their keys.
// Each form differs from the previous one in one point:
//
//     hard dictionary      Equality    temperature 0    the value of the equal key, or nothing
//     nearest key          Nearness    temperature 0    another similarity: there is always an answer
//     soft dictionary      Nearness    τ                above 0: near keys answer together
//     Gaussian smoothing   Nearness    h²               queries and keys are positions: the weights are fixed
//     dot-product          DotProduct  √E               another similarity: of contents, not of positions
//     multi-head           DotProduct  √E               the same on H slices of the features at once
//
// Naive, N_q · N_k similarities: for comparison and teaching. attention/attention.h has the fast version of the last
// two.
#pragma once

#include <cmath>
#include <cstdint>

#include "qkv/core/tensor.h"

namespace qkv::lab {

/// Similarity of a query and a key of E features; greater means more similar.
template <typename T>
using Similarity = T (*)(const T* query, const T* key, int64_t E);

/// 0 where all features are equal, −infinity elsewhere.
template <typename T>
T Equality(const T* query, const T* key, int64_t E);

/// −½‖q − k‖².
template <typename T>
T Nearness(const T* query, const T* key, int64_t E);

/// q · k.
template <typename T>
T DotProduct(const T* query, const T* key, int64_t E);

/// A dictionary of keys and values: weights are softmax(similarity / temperature) over the keys. Temperature 0 is the
/// limit: the most similar keys share the weight equally.
template <typename T>
struct Memory {
  Similarity<T> similarity = DotProduct<T>;
  T temperature = 1;
};

template <typename T>
Memory<T> HardDictionary() {
  return {Equality<T>, 0};
}
template <typename T>
Memory<T> NearestKey() {
  return {Nearness<T>, 0};
}
template <typename T>
Memory<T> SoftDictionary(T temperature) {
  return {Nearness<T>, temperature};
}
/// Equal to SoftDictionary(√E) if all keys have the same norm, since q·k = −½‖q − k‖² + ½‖q‖² + ½‖k‖² and the softmax
/// does not depend on ½‖q‖². Otherwise attention also weights key j by exp(‖k_j‖² / 2√E).
template <typename T>
Memory<T> ScaledDotProduct(int64_t E) {
  return {DotProduct<T>, std::sqrt(static_cast<T>(E))};
}

/// out[i] = Σ_j w_ij v[j]. q: [N_q, E], k: [N_k, E], v: [N_k, E_v], out: [N_q, E_v]; `weights`, if not empty, receives
/// w [N_q, N_k]. Any strides with a dense last axis. A query whose similarity with every key is −infinity, such as one
/// missing from a hard dictionary, gets zeros for weights and output. Throws Error when the shapes do not fit or the
/// temperature is negative.
template <typename T>
void Recall(const Memory<T>& memory, View<const T> q, View<const T> k, View<const T> v, View<T> out,
            View<T> weights = {});

/// The same for `heads` slices of the features, one after the other in q, k [N, H·E] and v, out [N, H·E_v]. Also throws
/// Error when `heads` does not divide the features.
template <typename T>
void RecallHeads(const Memory<T>& memory, int64_t heads, View<const T> q, View<const T> k, View<const T> v,
                 View<T> out);

/// The coordinates of a grid's points, row by row: [N, rank]. {N}: a sequence; {H, W}: an image.
template <typename T>
Tensor<T> GridPositions(const Shape& grid);

/// Nadaraya and Watson's estimator (1964) with a Gaussian kernel of standard deviation `bandwidth` on a grid: every
/// point becomes the mean of all, weighted by exp(−‖p_i − p_j‖² / 2h²), that is
/// Recall(SoftDictionary(h²), positions, positions, values). values, out: [N, C] for a sequence, [H, W, C] for an
/// image, any number of axes before the last; dense.
/// Throws Error when the shapes differ or the bandwidth is not positive.
template <typename T>
void GaussianSmooth(View<const T> values, T bandwidth, View<T> out);

}  // namespace qkv::lab
