// A trained encoder-decoder with some pairs of texts, and how well it translates them if something replaces
// cross-attention's softmax.
#pragma once

#include <cstdint>
#include <string>

#include "qkv/lab/claims/claims.h"
#include "qkv/model/sequence/text_model.h"
#include "qkv/nn/cross_weights.h"
#include "qkv/train/sequences/pairs.h"

namespace qkv::lab::internal {

class Translator {
 public:
  /// Opens setup.translator and the first setup.lines of setup.pairs. Throws Error if they cannot be opened, the model
  /// is no encoder-decoder, or no line is short enough for it.
  explicit Translator(const Setup& setup);

  const std::string& name() const { return name_; }
  const model::TextModel& model() const { return model_; }
  const train::PairTokenizer& tokenizer() const { return tokenizer_; }
  const train::PairSet& set() const { return set_; }
  int64_t lines() const { return texts_.size(); }
  /// Tokens of the sources per token of the targets.
  double slope() const { return SourceTokensPerTargetToken(set_); }

  /// 0 to 100, of translations by the most probable token each.
  double Bleu(const nn::CrossWeights& cross = {}) const;
  /// Mean of −log p of a target's token after the right ones before it.
  double Loss(const nn::CrossWeights& cross = {}) const;
  /// The same if each target is read with the source of another line.
  double LossWithOtherSources() const;

 private:
  Translator(const Setup& setup, const model::TextCheckpoint& checkpoint);

  std::string name_;
  model::TextModel model_;
  train::PairTokenizer tokenizer_;
  train::PairTexts texts_;
  train::PairSet set_;
};

}  // namespace qkv::lab::internal
