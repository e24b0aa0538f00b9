// Spectra of circuits. A circuit is a D×D matrix AᵀB of two thin factors:
//     the QK circuit  W_Qᵀ W_K   A = W_Q, B = W_K           (what attends to what)
//     the OV circuit  W_O W_V    A = Transpose(W_O), B = W_V (what is written)
// Apply FoldLayerNorm and Centre (fold.h) first. Everything here is O(D E²), without D×D matrices.
#pragma once

#include <complex>
#include <span>
#include <vector>

#include "qkv/algebra/projection.h"

namespace qkv::algebra {

/// Singular values of AᵀB for A [E, m], B [E, n] in descending order: min(E, m, n) of them; the others are zero.
template <typename T>
std::vector<T> SingularValues(View<const T> a, View<const T> b);

/// Singular values of one matrix.
template <typename T>
std::vector<T> SingularValues(View<const T> matrix);

/// Eigenvalues of AᵀB for A, B [E, D] in descending order of magnitude: min(E, D) of them; the others are zero. They
/// are those of the E×E matrix B Aᵀ, since XY and YX have the same nonzero eigenvalues.
template <typename T>
std::vector<std::complex<T>> Eigenvalues(View<const T> a, View<const T> b);

/// Eigenvalues of one square matrix.
template <typename T>
std::vector<std::complex<T>> Eigenvalues(View<const T> matrix);

/// Σ Re λ / Σ |λ|, in [−1, 1]. For the OV circuit: whether a head copies (1) or negates (−1) what it reads (Elhage et
/// al. 2021, "A Mathematical Framework for Transformer Circuits"). For the QK circuit: whether tokens attend to similar
/// tokens. 0 if all eigenvalues are zero.
template <typename T>
double EigenvalueSign(std::span<const std::complex<T>> eigenvalues);

/// Effective rank: exp of the entropy of σ_i / Σσ (Roy and Vetterli 2007). From 1 to the rank; 0 for a zero matrix.
template <typename T>
double EffectiveRank(std::span<const T> singular_values);

/// Stable rank ‖M‖_F² / ‖M‖₂². From 1 to the rank, and insensitive to small σ; 0 for a zero matrix.
template <typename T>
double StableRank(std::span<const T> singular_values);

/// Number of singular values above rounding, σ_i > `dimension` · ε · σ_1; `dimension`: the greater side of the matrix.
template <typename T>
int64_t NumericalRank(std::span<const T> singular_values, int64_t dimension);

/// The error of the best approximation of this rank: (Σ_{i ≥ rank} σ_i²)^½ (Eckart and Young 1936).
template <typename T>
double TailNorm(std::span<const T> singular_values, int64_t rank);

}  // namespace qkv::algebra
