// The certificate: which rewritings of an attention layer are exact, and what stands in the way of the others. The
// statements and their conditions are those of docs/algebra.md; the numbers come from the weights.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/inspect/weights.h"

namespace qkv::lab {

/// What stands around the projections of an attention layer, beside its weights. A layer of qkv's own families has at
/// most the first two and the last; the others are for layers of other libraries (`qkv qk certify --with`).
struct AttentionTraits {
  enum class Norm { kNone, kLayerNorm, kRmsNorm };
  Norm norm = Norm::kLayerNorm;  // of the tokens, before the projections; its gamma and beta are the weights'
  bool qk_norm = false;          // LayerNorm or RMS norm of queries and keys (ViT-22B), or cosine attention
  int64_t rope = 0;              // features of a head that rotary positions turn: any obstruct as all do
  bool soft_cap = false;         // tanh on the logits
  bool sink = false;             // one more term in the softmax's denominator: attention sinks, softmax-plus-one
  bool added_keys = false;       // keys that are no token's (torch's add_zero_attn, bias_k)
  bool not_softmax = false;      // sigmoid, ReLU or linear attention
  bool dropout = false;          // on the attention weights, in training
  bool output_norm = false;      // over the joined heads, before W_O (timm's scale_attn_norm)
};

enum class Rewriting {
  kMerge,           // M = W_Qᵀ W_K in place of both, without any bias
  kMergeSoftmax,    // M and u = W_Kᵀ b_Q
  kMergeExact,      // M, u, w and c: all terms
  kDropKeyBias,     // b_K left out
  kSplit,           // the balanced pair of the same M
  kRegauge,         // Tᵀ W_Q, T⁻¹ W_K for any invertible T
  kTruncate,        // a pair of r features
  kFoldNorm,        // the norm's gamma and beta into the projections
  kMergeFolded,     // that, and then M without any bias
  kCentre,          // W P: what weights, gamma and beta folded in, read along 1 taken off
  kMergeOutput,     // M_OV = W_O W_V, and W_O b_V into the layer's bias
  kValuesFromKeys,  // V = W_V W_K⁻¹ K: keys alone are cached
  kShare,           // the best W in place of both W_Q and W_K
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
};

/// "merge without bias", "exact after softmax only", "LayerNorm's beta", …
std::string_view Name(Rewriting rewriting);
std::string_view Name(Exactness exactness);
std::string_view Name(Obstruction obstruction);

/// One statement.
struct Certificate {
  static constexpr int64_t kAllHeads = -1;
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();  // does not apply

  int64_t block = 0, head = kAllHeads;
  Rewriting rewriting = Rewriting::kMerge;
  Exactness verdict = Exactness::kExact;
  std::vector<Obstruction> obstructions;  // kImpossible: all of them. kAfterSoftmax: why it is not exact.
  // kApproximate: ‖M − M'‖_F / ‖M‖_F with biases counted as one more input; no logit of any tokens is off by more than
  // `logit_bound` (where softmax follows at once: up to a constant for each query), no query's attention by more than
  // `attention_bound` in total variation. The norm bounds the tokens; without one the bounds are infinite.
  double weight_error = kNone, logit_bound = kNone, attention_bound = kNone;
  double condition = kNone;  // kValuesFromKeys: rounding of the keys grows up to this much
};

/// All rewritings of all heads of a layer; kFoldNorm, kCentre and kValuesFromKeys are of the layer. A bias or beta that
/// is zero throughout is none. `rank`: r of kTruncate. `block` is only written down.
/// Throws Error when the shapes do not fit or rank < 1.
std::vector<Certificate> Certify(const inspect::AttentionWeights<double>& layer, const AttentionTraits& traits,
                                 int64_t rank, int64_t block = 0);

/// What is around the attention of a model's blocks.
AttentionTraits TraitsOf(const model::VitConfig& config);

/// Half of what a head's queries and keys have, 1 at least.
int64_t HalfRank(const model::VitConfig& config);

/// Every block of a model; rank 0 is HalfRank.
std::vector<Certificate> Certify(const model::Checkpoint& checkpoint, int64_t rank = 0);

/// The same of its weights in other surroundings. The model's beta is left out where the norm is none that has one.
std::vector<Certificate> Certify(const model::Checkpoint& checkpoint, int64_t rank, const AttentionTraits& traits);

/// The attention of any tokens is off by this much at most, in total variation, when no logit is off by more than
/// `logits`: tanh(logits / 2).
double AttentionBound(double logits);

}  // namespace qkv::lab
