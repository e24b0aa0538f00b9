// Certificates of rewriting: which rewritings of an attention layer are exact, and what obstructs the others.
// Statements and conditions are those of docs/algebra.md; the numbers come from the weights.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/inspect/parts.h"
#include "qkv/inspect/weights.h"

namespace qkv::lab {

/// Operations around the projections of an attention layer. Layers of qkv's own families have at most norms, rotary
/// positions and sinks; the others describe layers of other libraries (`qkv qk certify --with`). What is added to the
/// logits, such as biases by relative position, is no trait: it stands beside x M x and obstructs nothing (note 13).
struct AttentionTraits {
  using Norm = inspect::TokenNorm;
  Norm norm = Norm::kLayerNorm;         // of the tokens, before the projections; gamma and beta are in the weights
  Norm source_norm = Norm::kLayerNorm;  // for cross-attention, the norm of the tokens of keys and values
  bool norm_is_stream = false;          // the norm's outputs go on in the residual stream (norms after the layers)
  bool qk_norm = false;                 // LayerNorm or RMS norm of queries and keys (ViT-22B), or cosine attention
  int64_t rope = 0;                     // rotated features of a head; any number obstructs
  bool soft_cap = false;                // tanh on the logits
  bool sink = false;                    // an extra term in the softmax's denominator: attention sinks, softmax-plus-one
  bool added_keys = false;              // keys without a token (torch's add_zero_attn, bias_k)
  bool not_softmax = false;             // sigmoid, ReLU or linear attention
  bool dropout = false;                 // on the attention weights, in training
  bool output_norm = false;             // over the joined heads, before W_O (timm's scale_attn_norm)
};

enum class Rewriting {
  kMerge,           // M = W_Qᵀ W_K in place of both, without any bias
  kMergeSoftmax,    // M and u = W_Kᵀ b_Q
  kMergeExact,      // M, u, w and c: all terms
  kDropKeyBias,     // b_K removed
  kSplit,           // the balanced pair of the same M
  kRegauge,         // Tᵀ W_Q, T⁻¹ W_K for any invertible T
  kTruncate,        // a pair of r features
  kFoldNorm,        // the norm's gamma and beta into the projections
  kMergeFolded,     // that, and then M without any bias
  kCentre,          // W P: folded weights without their component along 1
  kMergeOutput,     // M_OV = W_O W_V, and W_O b_V into the layer's bias
  kValuesFromKeys,  // V = W_V W_K⁻¹ K: only keys are cached
  kShare,           // one W that best replaces both W_Q and W_K
};

enum class Exactness {
  kExact,         // the same logits (or outputs)
  kAfterSoftmax,  // other logits, the same attention
  kApproximate,   // within a bound
  kImpossible,    // obstructed
};

enum class Obstruction {
  kQueryBias,
  kKeyBias,
  kValueBias,
  kBeta,
  kRmsNorm,
  kNoNorm,
  kQkNorm,
  kRope,
  kSoftCap,
  kSink,
  kAddedKeys,
  kNotSoftmax,
  kDropout,
  kOutputNorm,
  kNotSquare,
  kSingular,
  kStream,
  kTwoWidths,
};

/// "merge without bias", "exact after softmax only", "LayerNorm's beta", …
std::string_view Name(Rewriting rewriting);
std::string_view Name(Exactness exactness);
std::string_view Name(Obstruction obstruction);

/// What stands between the projections and their product: QK-norm, rotary positions. Logits are not x M y then, and no
/// rewriting of the pair is exact.
std::vector<Obstruction> ScoreObstructions(const AttentionTraits& traits);
/// What makes the attention depend on constants along a row of logits, such as a sink: b_K does not drop out then.
std::vector<Obstruction> SoftmaxObstructions(const AttentionTraits& traits);

/// One statement about one rewriting.
struct Certificate {
  static constexpr int64_t kAllHeads = -1;
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();  // does not apply

  std::string_view part;  // for a text model: "encoder", "decoder", "cross"
  int64_t block = 0, head = kAllHeads;
  Rewriting rewriting = Rewriting::kMerge;
  Exactness verdict = Exactness::kExact;
  std::vector<Obstruction> obstructions;  // kImpossible: all of them; kAfterSoftmax: why it is not exact
  // kApproximate: ‖M − M'‖_F / ‖M‖_F with biases as one more input. For any tokens, logits differ by at most
  // `logit_bound` (up to a constant per query if softmax follows directly), and attention by at most `attention_bound`
  // in total variation per query. The norm bounds the tokens; without a norm the bounds are infinite.
  double weight_error = kNone, logit_bound = kNone, attention_bound = kNone;
  double condition = kNone;  // kValuesFromKeys: greatest amplification of the keys' rounding errors
};

/// All rewritings of all heads of a layer; kFoldNorm, kCentre and kValuesFromKeys concern the whole layer. A bias or
/// beta that is all zero counts as absent. `rank`: r of kTruncate. `block` is only copied into the results. Throws
/// Error if the shapes do not fit or rank < 1.
///
/// For cross-attention (AttentionWeights::source) kShare is about one W for tokens of two spaces, in the coordinates
/// that both have (note 19).
std::vector<Certificate> Certify(const inspect::AttentionWeights& layer, const AttentionTraits& traits, int64_t rank,
                                 int64_t block = 0);

/// The traits of a model's blocks.
AttentionTraits MakeAttentionTraits(const model::VitConfig& config);
/// Those of a part, but for its norms, which may differ between its blocks.
AttentionTraits MakeAttentionTraits(const inspect::AttentionPart& part);

/// Half of a head's query-key features, at least 1.
int64_t HalfRank(const nn::AttentionConfig& attention);

/// Certifies every block of a model; rank 0 means HalfRank.
std::vector<Certificate> Certify(const model::Checkpoint& checkpoint, int64_t rank = 0);

/// The same with other traits. The model's beta is ignored if the norm has none.
std::vector<Certificate> Certify(const model::Checkpoint& checkpoint, int64_t rank, const AttentionTraits& traits);

/// Certifies every block of a part, with the norms that precede each. `traits`: as MakeAttentionTraits gives them, or
/// with more; with the RMSNorm in place of LayerNorms if their norm is one. Throws Error if its scores do not come from
/// tokens.
std::vector<Certificate> Certify(const inspect::AttentionPart& part, int64_t rank, const AttentionTraits& traits);

/// Greatest total variation between the attention of two models whose logits differ by at most `logits`: tanh(logits /
/// 2).
double AttentionBound(double logits);

}  // namespace qkv::lab
