// What a model's attention heads are, from their weights alone. What they do with tokens: heads_tokens.h.
//
// A head is two circuits (algebra/spectrum.h): QK, M = W_Qᵀ W_K, says what attends to what, and OV, W_O W_V, what is
// then written. Both are taken after the LayerNorm before them is folded into the weights and its mean taken off, with
// LayerScale in W_O, and W_O's outputs centred as the next LayerNorm does: W_Q diag(γ) P, P = I − 11ᵀ/D. Without that
// the numbers below are others, and wrong: a gain of 10 on one feature would not count, and what weights read along 1,
// which no token ever has, would.
//
// Weights are computed in double. Per head O(D E²); no D×D matrix is made, but for merged heads, which are stored as
// one. Norms on queries and keys (QK-norm) stand between M and the logits: M is that of the numerator then, without
// their gains. A norm over the joined heads likewise stands between W_V and W_O.
#pragma once

#include <array>
#include <complex>
#include <cstdint>
#include <vector>

#include "qkv/algebra/freedom.h"
#include "qkv/inspect/weights.h"

namespace qkv::inspect {

/// The shares of the energy Σσ² for which a circuit's rank is asked.
inline constexpr std::array<double, 3> kEnergyShares = {0.9, 0.99, 0.999};

/// A D×D matrix of low rank. All numbers but the singular values are the same for any multiple of it.
struct Circuit {
  std::vector<double> singular_values;            // σ, in falling order: those that E and D allow
  std::vector<std::complex<double>> eigenvalues;  // λ, in falling order of magnitude
  double effective_rank = 0;                      // exp of the entropy of σ / Σσ
  double stable_rank = 0;                         // Σσ² / σ_1²
  int64_t rank = 0;                               // σ above the rounding of float32 weights, D · 2⁻²³ · σ_1
  double condition = 0;                           // σ_1 / σ_rank; 0 of a zero matrix
  std::array<int64_t, kEnergyShares.size()> energy_rank{};  // the least r whose first r σ² hold that share of all
  double symmetry = 0;                                      // (‖M_s‖² − ‖M_a‖²) / ‖M‖², from −1 to 1
  double eigenvalue_sign = 0;                               // Σ Re λ / Σ |λ|, from −1 to 1
};

/// AᵀB of A, B [E, D]. Throws Error when the shapes do not fit.
Circuit MeasureCircuit(View<const double> a, View<const double> b);

/// One head. The last four are of the weights as they are stored, nothing folded: what weight decay sees.
struct HeadWeights {
  Circuit qk, ov;
  double query_norm = 0, key_norm = 0;  // ‖W_Q‖_F, ‖W_K‖_F
  double key_bias_norm = 0;             // ‖b_K‖, of which softmax sees nothing; 0 without b_K
  /// 1 − 2 Σσ / (‖W_Q‖² + ‖W_K‖²), from 0 to 1: how much of the pair's squared norm the balanced gauge would save with
  /// the same attention (algebra/gauge.h). 0 where gradient and decay have balanced the two.
  double gauge_excess = 0;
};

/// Every head of a block, heads in parallel. Throws Error when the shapes do not fit.
std::vector<HeadWeights> MeasureWeights(const AttentionWeights<double>& weights);

/// Numbers of one head's query and key weights, on the way to the same attention.
struct HeadParameters {
  algebra::ParameterCount count;  // of any tokens
  int64_t seen = 0;               // the freedom on tokens of a LayerNorm, which lack one direction
};

/// E is the width of queries and keys.
HeadParameters CountHead(int64_t D, int64_t E, bool bias);

}  // namespace qkv::inspect
