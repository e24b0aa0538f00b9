// Configuration of a Transformer block, shared by models, inference, training and inspection. Not here: options of one
// pass, which are AttentionContext (inference) and BlockSettings (training).
#pragma once

#include <cstdint>
#include <optional>

#include "qkv/simd/gemm/gemm.h"
#include "qkv/simd/rows/elementwise.h"

namespace qkv::nn {

/// Scores between tokens x_i and x_j in one head, and values. s = 1 / sqrt(E); p: positions in the grid, in patches.
enum class AttentionKind {
  kSeparate,        // s · (W_Q x_i)·(W_K x_j), values W_V x_j
  kShared,          // W_Q = W_K
  kUnified,         // W_Q = W_K = W_V
  kSharedKeyValue,  // W_K = W_V
  kMerged,          // s · (x_i M x_jᵀ + u·x_j), M [D, D]
  kLowRank,         // as kSeparate; queries and keys are narrower than E
  kSymmetric,       // s · (U x_i)·Λ (U x_j), Λ diagonal
  kGaussian,        // −‖p_i − p_j‖² / 2h²; a token without a position has distance 0 to all
  kPositional,      // s · q_i·k_j, with a learned q and k per position, independent of the tokens
  kDifferential,  // weights are the difference of two maps: softmax(q_1 k_1ᵀ / √e) − λ softmax(q_2 k_2ᵀ / √e), where
                  // a head's E features of queries and keys are two of e = E / 2 (Ye et al. 2024)
};

/// W_Q = W_K.
constexpr bool QueriesAreKeys(AttentionKind kind) {
  return kind == AttentionKind::kShared || kind == AttentionKind::kUnified || kind == AttentionKind::kSymmetric;
}
/// W_K = W_V.
constexpr bool ValuesAreKeys(AttentionKind kind) {
  return kind == AttentionKind::kUnified || kind == AttentionKind::kSharedKeyValue;
}
/// Scores depend on positions only.
constexpr bool IsPositional(AttentionKind kind) {
  return kind == AttentionKind::kGaussian || kind == AttentionKind::kPositional;
}
/// Queries, keys and values are separate and equally wide, so that one tensor holds them all.
constexpr bool StacksProjections(AttentionKind kind) {
  return kind == AttentionKind::kSeparate || kind == AttentionKind::kDifferential;
}
/// Separate queries and keys are computed from the tokens.
constexpr bool HasQueriesAndKeys(AttentionKind kind) {
  return StacksProjections(kind) || kind == AttentionKind::kSharedKeyValue || kind == AttentionKind::kLowRank;
}
/// Several query heads can share one head of keys and values.
constexpr bool AllowsKeyHeads(AttentionKind kind) { return HasQueriesAndKeys(kind); }
/// Queries and keys are computed from the tokens, so that positions can rotate them (nn/rotary.h).
constexpr bool AllowsRotary(AttentionKind kind) { return kind != AttentionKind::kMerged && !IsPositional(kind); }
/// Queries and keys can be normalised: they exist, and the keys do not serve as values too.
constexpr bool AllowsQueryKeyNorm(AttentionKind kind) {
  return StacksProjections(kind) || kind == AttentionKind::kShared || kind == AttentionKind::kLowRank;
}

/// Features per position for kGaussian, see gaussian_places.h.
inline constexpr int64_t kGaussianFeatures = 4;

/// Configuration of all norms of a block and of the model around it.
struct NormConfig {
  simd::NormKind kind = simd::NormKind::kLayer;
  double eps = 1e-6;
  bool bias = true;  // beta; kRms never has one

  bool has_bias() const { return bias && kind == simd::NormKind::kLayer; }
  bool operator==(const NormConfig&) const = default;
};

/// Norm of each head's output for kDifferential, which no configuration changes.
inline constexpr NormConfig kHeadNorm = {.kind = simd::NormKind::kRms, .eps = 1e-5};

struct AttentionConfig {
  AttentionKind kind = AttentionKind::kSeparate;
  int64_t heads = 12;       // H
  int64_t head_width = 64;  // E, of values
  int64_t qk_width = 0;     // r, of queries and keys; 0: E
  // G, number of key and value heads, each shared by H/G query heads (Ainslie et al. 2023); 0: H. See AllowsKeyHeads.
  int64_t key_heads = 0;
  // A query at position p sees keys from p − window_left to p + window_right; −1: no limit.
  int64_t window_left = -1, window_right = -1;
  bool sinks = false;        // a learned score per head in each row's softmax, without a value; see attention::Options
  bool of_source = false;    // cross-attention: keys and values come from other tokens than queries
  int64_t source_width = 0;  // width of those tokens; 0: D
  bool bias = true;          // on queries, keys and values
  bool key_bias = true;      // false: the biases are of queries and values alone (EVA, DINOv3)
  bool qk_norm = false;      // over the score_width of each head and map (Dehghani et al. 2023)
  bool output_norm = false;  // over the joined heads, before the projection (timm's scale_attn_norm)
  // Rows of a table [bias_rows, H] of biases by relative position, which are added to the scores (BEiT); 0: none.
  int64_t bias_rows = 0;
  bool projection = true, projection_bias = true;  // without projection the output is the joined heads

  int64_t query_width() const { return qk_width > 0 ? qk_width : head_width; }
  /// Softmaxes of a head, each with queries and keys of its own, in equal parts of the query_width.
  int64_t maps() const { return kind == AttentionKind::kDifferential ? 2 : 1; }
  int64_t score_width() const { return query_width() / maps(); }  // of the vectors whose product is a score
  int64_t kv_heads() const { return key_heads > 0 ? key_heads : heads; }
  bool groups_heads() const { return kv_heads() < heads; }
  bool has_window() const { return window_left >= 0 || window_right >= 0; }
  int64_t source(int64_t width) const { return source_width > 0 ? source_width : width; }  // of a model of this width
  int64_t values_width() const { return kv_heads() * head_width; }                         // G·E
  /// Width of the q and k of each position, for positional kinds.
  int64_t place_width() const { return kind == AttentionKind::kGaussian ? kGaussianFeatures : query_width(); }
  int64_t joined_width() const { return heads * head_width; }  // H·E
  bool operator==(const AttentionConfig&) const = default;
};

struct MlpConfig {
  int64_t width = 3072;  // M, hidden
  simd::Gate gate = simd::Gate::kNone;
  simd::Activation activation = simd::Activation::kGelu;
  bool bias = true;
  bool norm = false;  // over M, after the activation (timm's scale_mlp_norm)

  bool operator==(const MlpConfig&) const = default;
};

enum class NormPlace {
  kBefore,    // x += ls1 · attention(norm1 x); x += ls2 · mlp(norm2 x)
  kAfter,     // x = norm1(x + ls1 · attention(x)); x = norm2(x + ls2 · mlp(x)) (Vaswani et al. 2017)
  kOutput,    // x += norm1(attention(x)); x += norm2(mlp(x)) (Liu et al. 2022)
  kParallel,  // n = norm1 x; x += ls1 · attention(n) + ls2 · mlp(n) (Dehghani et al. 2023)
};

/// Layers read norm x, so that the norm can be folded into them.
constexpr bool NormsInputs(NormPlace place) { return place == NormPlace::kBefore || place == NormPlace::kParallel; }

struct BlockConfig {
  int64_t width = 768;  // D
  NormConfig norm = {};
  NormPlace norm_place = NormPlace::kBefore;
  AttentionConfig attention = {};
  // Cross-attention between attention and MLP: x += ls · cross(norm_cross x, source), with queries from x and keys and
  // values from the source.
  std::optional<AttentionConfig> cross = {};
  MlpConfig mlp = {};
  bool layer_scale = false;  // ls1, ls2 (Touvron et al. 2021)

  bool operator==(const BlockConfig&) const = default;
};

/// Layout of the tokens: `prefix` tokens without a position, then a grid row by row. A sequence is a grid of one row.
struct TokenGrid {
  int64_t prefix = 0, height = 0, width = 0;

  int64_t tokens() const { return prefix + height * width; }
};

}  // namespace qkv::nn
