// Spectra of circuits. A circuit is a D×D matrix AᵀB of two thin factors:
//     the QK circuit  W_Qᵀ W_K   A = W_Q, B = W_K           (what attends to what)
//     the OV circuit  W_O W_V    A = Transpose(W_O), B = W_V (what is written)
// Apply FoldLayerNorm and Centre (fold.h) first. Everything here is O(D E²), without D×D matrices.
#pragma once

#include <complex>
#include <limits>
#include <span>
#include <vector>

#include "qkv/algebra/projection.h"

namespace qkv::algebra {

/// Singular values of AᵀB for A [E, m], B [E, n] in descending order: min(E, m, n) of them; the others are zero.
std::vector<double> SingularValues(View<const double> a, View<const double> b);

/// Singular values of one matrix.
std::vector<double> SingularValues(View<const double> matrix);

/// Eigenvalues of AᵀB for A, B [E, D] in descending order of magnitude: min(E, D) of them; the others are zero. They
/// are those of the E×E matrix B Aᵀ, since XY and YX have the same nonzero eigenvalues.
std::vector<std::complex<double>> Eigenvalues(View<const double> a, View<const double> b);

/// Eigenvalues of one square matrix.
std::vector<std::complex<double>> Eigenvalues(View<const double> matrix);

/// Σ Re λ / Σ |λ|, in [−1, 1]. For the OV circuit: whether a head copies (1) or negates (−1) what it reads (Elhage et
/// al. 2021, "A Mathematical Framework for Transformer Circuits"). For the QK circuit: whether tokens attend to similar
/// tokens. 0 if all eigenvalues are zero.
double EigenvalueSign(std::span<const std::complex<double>> eigenvalues);

/// Effective rank: exp of the entropy of σ_i / Σσ (Roy and Vetterli 2007). From 1 to the rank; 0 for a zero matrix.
double EffectiveRank(std::span<const double> singular_values);

/// Stable rank ‖M‖_F² / ‖M‖₂². From 1 to the rank, and insensitive to small σ; 0 for a zero matrix.
double StableRank(std::span<const double> singular_values);

/// Number of singular values above rounding, σ_i > `dimension` · `epsilon` · σ_1; `dimension`: the greater side of the
/// matrix; `epsilon`: of the numbers that the matrix was computed from.
int64_t NumericalRank(std::span<const double> singular_values, int64_t dimension,
                      double epsilon = std::numeric_limits<double>::epsilon());

/// The error of the best approximation of this rank: (Σ_{i ≥ rank} σ_i²)^½ (Eckart and Young 1936).
double TailNorm(std::span<const double> singular_values, int64_t rank);

}  // namespace qkv::algebra
