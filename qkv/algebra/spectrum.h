// Spectra of circuits. A circuit is a D×D matrix AᵀB that two thin factors make:
//     the QK circuit  W_Qᵀ W_K   A = W_Q, B = W_K           (what attends to what)
//     the OV circuit  W_O W_V    A = Transpose(W_O), B = W_V (what it then writes)
// Take them after FoldLayerNorm and Centre (fold.h). Everything here is O(D E²): no D×D matrix is made.
#pragma once

#include <complex>
#include <span>
#include <vector>

#include "qkv/algebra/projection.h"

namespace qkv::algebra {

/// The singular values of AᵀB for A [E, m], B [E, n], in falling order: min(E, m, n) of them, the rest are zero.
template <typename T>
std::vector<T> SingularValues(View<const T> a, View<const T> b);

/// Those of one matrix.
template <typename T>
std::vector<T> SingularValues(View<const T> matrix);

/// The eigenvalues of AᵀB for A, B [E, D], in falling order of magnitude: min(E, D) of them, the rest are zero. They
/// are those of the E×E matrix B Aᵀ, since XY and YX have the same nonzero eigenvalues.
template <typename T>
std::vector<std::complex<T>> Eigenvalues(View<const T> a, View<const T> b);

/// Those of one square matrix.
template <typename T>
std::vector<std::complex<T>> Eigenvalues(View<const T> matrix);

/// Σ Re λ / Σ |λ|, in [−1, 1]: of the OV circuit whether a head copies (1) or negates (−1) what it reads (Elhage et al.
/// 2021, "A Mathematical Framework for Transformer Circuits"); of the QK circuit whether tokens look for their like.
/// 0 when all eigenvalues are zero.
template <typename T>
double EigenvalueSign(std::span<const std::complex<T>> eigenvalues);

/// Effective rank: exp of the entropy of σ_i / Σσ (Roy and Vetterli 2007). From 1 to the rank; 0 of a zero matrix.
template <typename T>
double EffectiveRank(std::span<const T> singular_values);

/// Stable rank ‖M‖_F² / ‖M‖₂². From 1 to the rank, never above it and little moved by small σ; 0 of a zero matrix.
template <typename T>
double StableRank(std::span<const T> singular_values);

/// How many singular values are above rounding, σ_i > `dimension` · ε · σ_1; `dimension`: the matrix's greater one.
template <typename T>
int64_t NumericalRank(std::span<const T> singular_values, int64_t dimension);

/// The error of the best approximation of this rank: (Σ_{i ≥ rank} σ_i²)^½ (Eckart and Young 1936).
template <typename T>
double TailNorm(std::span<const T> singular_values, int64_t rank);

}  // namespace qkv::algebra
