// Measures attention heads from their weights alone. Not here: their behaviour on tokens (heads_tokens.h).
//
// A head has two circuits (algebra/spectrum.h): QK, M = W_Qᵀ W_K, decides which tokens attend to which; OV, W_O W_V,
// decides what is written. For both, the preceding norm is folded into the weights, and a LayerNorm's mean is removed;
// LayerScale is folded into W_O, and W_O's outputs are centred if a LayerNorm reads them: W_Q diag(γ) P, P = I − 11ᵀ/D.
// Without folding the numbers below would be wrong: a gain of 10 on one feature would not count, and components along
// 1, which normalised tokens never have, would. An RMSNorm keeps the mean, so there is no P. Without a norm (the first
// block of Marian) the weights are as stored.
//
// In cross-attention queries come from one space and keys and values from another, each with its own norm. Its circuits
// have singular values and ranks, but no symmetric part and no eigenvalues: those compare a matrix's rows with its
// columns.
//
// Computed in double, O(D E²) per head. No D×D matrix is built, except for merged heads, which are stored as one. With
// rotary positions, M is that of a query and a key at one place. With QK-norm, M is that of the numerator, without the
// norm's gains, as the norm stands between M and the logits. A norm over the joined heads likewise stands between W_V
// and W_O.
#pragma once

#include <array>
#include <complex>
#include <cstdint>
#include <vector>

#include "qkv/algebra/freedom.h"
#include "qkv/inspect/weights.h"

namespace qkv::inspect {

/// The fractions of the energy Σσ² for which a circuit's rank is reported.
inline constexpr std::array<double, 3> kEnergyShares = {0.9, 0.99, 0.999};

/// Whether the rows and the columns of a circuit belong to one space, or as in cross-attention to two.
enum class Spaces { kOne, kTwo };

/// A D×D matrix of low rank, or D×S. All numbers except the singular values are invariant to scaling it. Between two
/// spaces there are no eigenvalues, and symmetry and sign are NaN.
struct Circuit {
  std::vector<double> singular_values;            // σ in descending order, as many as E and D allow
  std::vector<std::complex<double>> eigenvalues;  // λ in descending order of magnitude
  double effective_rank = 0;                      // exp of the entropy of σ / Σσ
  double stable_rank = 0;                         // Σσ² / σ_1²
  int64_t rank = 0;      // number of σ above the rounding of float32 weights, D · 2⁻²³ · σ_1
  double condition = 0;  // σ_1 / σ_rank; 0 for a zero matrix
  std::array<int64_t, kEnergyShares.size()> energy_rank{};  // least r whose first r σ² hold that fraction of all
  double symmetry = 0;                                      // (‖M_s‖² − ‖M_a‖²) / ‖M‖², from −1 to 1
  double eigenvalue_sign = 0;                               // Σ Re λ / Σ |λ|, from −1 to 1
};

/// Measures AᵀB for A, B [E, D], or of two spaces A [E, D], B [E, S]. Throws Error if the shapes do not fit.
Circuit MeasureCircuit(View<const double> a, View<const double> b, Spaces spaces = Spaces::kOne);

/// Numbers of one head. The last four use the stored weights, without folding: those that weight decay acts on.
struct HeadWeights {
  Circuit qk, ov;
  double query_norm = 0, key_norm = 0;  // ‖W_Q‖_F, ‖W_K‖_F
  double key_bias_norm = 0;             // ‖b_K‖, which softmax cancels; 0 without b_K
  /// 1 − 2 Σσ / (‖W_Q‖² + ‖W_K‖²), from 0 to 1: the part of the pair's squared norm that the balanced gauge saves at
  /// equal attention (algebra/gauge.h). 0 if gradient and decay have balanced the two.
  double gauge_excess = 0;
};

/// Measures every head of a block, heads in parallel. Throws Error if the shapes do not fit.
std::vector<HeadWeights> MeasureWeights(const AttentionWeights& weights);

/// Parameter counts of one head's queries and keys under rewritings of equal attention.
struct HeadParameters {
  algebra::ParameterCount count;  // for arbitrary tokens
  int64_t seen = 0;               // degrees of freedom on the norm's outputs; a LayerNorm's lack one direction
};

/// E is the width of queries and keys; D that of both sides' tokens.
HeadParameters CountHead(int64_t D, int64_t E, bool bias, TokenNorm norm = TokenNorm::kLayerNorm);

}  // namespace qkv::inspect
