// Gated attention over a bag (Ilse et al. 2018, "Attention-based Deep Multiple Instance Learning") for inference: the
// heads of CLAM, MIL-Lab (FEATHER) and TRIDENT differ in what stands before and after it. Not here: their files
// (gated_files.h) and training (network.h).
#pragma once

#include <string>
#include <vector>

#include "qkv/mil/head.h"
#include "qkv/nn/linear.h"

namespace qkv::mil {

/// activation(W x + b).
struct Stage {
  nn::Linear<float> linear;
  simd::Activation activation = simd::Activation::kNone;

  int64_t outputs() const { return linear.weight.outputs(); }
  int64_t inputs() const { return linear.weight.inputs(); }
};

/// h = embed(x); of each attention head, z = tanh(A h) ⊙ σ(B h), or tanh(A h) without a gate, and a score per branch;
/// softmax over tiles; sums of h. F: width of h, R branches, T attention heads, K = R·T.
struct GatedWeights {
  std::string name;
  std::vector<std::string> classes;
  std::vector<Stage> embed;  // width → F; may be empty
  bool gated = true;
  int64_t hidden = 0;  // Z, of z
  // All heads' A, then, gated, all heads' B / 2: tanh serves both, σ(v) = (1 + tanh(v / 2)) / 2. [T·Z (·2), F]
  Stage gates;
  std::vector<nn::Linear<float>> scores;  // of each attention head, [R, Z]
  std::vector<Stage> after;               // on each branch's vector [T·F]: TRIDENT's condensing layer and what follows
  std::vector<Stage> classifier;          // on all branches' vectors together; or empty
  std::vector<nn::Linear<float>> branch_classifiers;  // [1, F] for each branch, instead
  bool one_logit = false;  // the classifier has one output z, the score of the second of two classes: logits are {0, z}
};

class GatedHead : public Head {
 public:
  /// Throws Error if the widths do not follow each other.
  explicit GatedHead(GatedWeights weights);

  Answer Forward(View<const float> features, std::span<const std::array<int64_t, 2>> coords,
                 int64_t side) const override;

 private:
  struct Sums;

  void AddBlock(View<const float> features, int64_t begin, Sums* sums, Answer* answer) const;
  void Classify(Answer* answer) const;

  GatedWeights w_;
  int64_t F_ = 0, T_ = 0, R_ = 0;
};

/// Throws Error unless features are a bag for a head of this width: at least one tile, finite numbers, and coordinates
/// of all tiles or of none.
void RequireBag(const Head& head, View<const float> features, std::span<const std::array<int64_t, 2>> coords);

}  // namespace qkv::mil
