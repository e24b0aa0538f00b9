// Decomposes the logits of a block's heads into position and content.
//
// x̂_bi is the normalised token i of image b, before the LayerNorm's γ and β, which are folded into the weights
// (heads.h). Its positional part is its mean over the images, its content the rest:
//
//     x̂_bi = p_i + c_bi,    p_i = 1/B Σ_b x̂_bi
//
// The split applies to normalised tokens, not to those before the norm: logits are bilinear in them, so the split is
// exact. Softmax ignores a constant per query, so the keys' mean over the image's tokens is subtracted, which also
// removes b_K. With q = W_Q x̂ + b_Q and k = W_K x̂,
//
//     T_bij = q_bi · (k_bj − 1/N Σ_j' k_bj')  =  PP_bij + PC_bij + CP_bij + CC_bij
//
// where the first letter is the part of the query (b_Q counts as position, as it is the same everywhere) and the second
// that of the key. The share of a part X in the variance of the logits is its covariance with the whole,
//
//     share(X) = Σ_bij X_bij T_bij / Σ_bij T_bij²        the four sum to 1
//
// PP is uncorrelated with PC and CP. The other pairs would nearly be, if query and key came from different images; but
// tokens of one image resemble each other. `overlap` = 1 − Σ_X ‖X‖² / ‖T‖² is the part of T that pairs have in common.
// Near 0, every way of attributing it gives these shares; otherwise a share may be negative. With B images, about 1/B
// of the content counts as position.
//
// With causal attention, row i of a sequence has the keys 0 to i, and all sums and means above go over these. Tokens of
// models whose norms follow their layers have passed the norm; they are split as they are, which gives the same shares.
//
// In another decomposition, T is the mean query's logits, equal for all queries of an image, plus a rest that sums to 0
// over the queries:
//
//     same = Σ_bj N (1/N Σ_i T_bij)² / Σ_bij T_bij²        1 if all tokens attend alike and W_Q has no effect
//
// With causal attention each query has keys of its own, and this is not defined.
#pragma once

#include <array>
#include <vector>

#include "qkv/inspect/weights.h"

namespace qkv::inspect {

enum LogitPart { kPositionPosition, kPositionContent, kContentPosition, kContentContent, kLogitParts };

/// Shares of one head over all images. 0 if all logits are 0.
struct LogitShares {
  std::array<double, kLogitParts> share{};
  double overlap = 0;
  double same = 0;      // share of the variance that is equal for all queries; NaN with causal attention
  double key_bias = 0;  // ‖terms in b_K‖_F / ‖S‖_F of the logits S before softmax, as algebra::KeyBiasShare
};

/// Scratch of LogitSplit::Add, shared by a model's blocks: it grows with N, not N².
struct LogitScratch {
  std::vector<std::array<Tensor<float>, kLogitParts>> tiles;  // per thread, [rows, N]
};

/// The tokens to split: x̂ of a block's input tokens [1, N, D], or the tokens themselves if they have passed their
/// norm.
Tensor<double> SplitTokens(const AttentionWeights& weights, const Tensor<float>& tokens);

/// Accumulates the shares of one block, image by image. Tokens in float, sums in double.
class LogitSplit {
 public:
  /// positions: the means of SplitTokens, [N, D]. causal: row i has keys 0 to i. Throws Error if the shapes do not fit.
  LogitSplit(const AttentionWeights& weights, const Tensor<double>& positions, bool causal = false);

  /// tokens: those of SplitTokens of one image, [N, D]. Heads in parallel. Throws Error unless the shape is that of the
  /// positions.
  void Add(const Tensor<double>& tokens, LogitScratch& scratch);

  /// [H], over the images added so far.
  std::vector<LogitShares> Shares() const;

 private:
  struct Sums {
    std::array<double, kLogitParts> with_whole{}, square{};  // Σ X T, Σ X²
    double whole = 0;                                        // Σ T²
    double same = 0;                                         // Σ_bj N (mean over i of T)²
    double bias = 0, stored = 0;                             // ‖terms in b_K‖², ‖S‖²
  };
  using Sides = std::array<View<const float>, 2>;  // of one head, [N, E]: from position, from content

  void AddParts(const Sides& query, const Sides& key, std::array<Tensor<float>, kLogitParts>& tile, Sums& sums) const;
  static void AddMeanQuery(const Sides& query, const Sides& key, Sums& sums);
  void AddConstants(const Sides& query, const Sides& key, int64_t head, const std::vector<double>& key_mean,
                    Sums& sums) const;

  int64_t heads_ = 1;
  bool causal_ = false;
  Tensor<double> positions_;                     // [N, D]
  Tensor<float> query_, key_;                    // [H·E, D], of what SplitTokens gives
  Tensor<float> query_position_, key_position_;  // [N, H·E]; the keys' minus their mean over the tokens
  std::vector<double> key_mean_;                 // [H·E], that mean, including the bias of the folded keys
  std::vector<double> key_bias_;                 // [H·E], the stored b_K, or zeros
  std::vector<Sums> sums_;                       // [H]
};

}  // namespace qkv::inspect
