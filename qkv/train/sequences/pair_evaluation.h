// Loss, accuracy and translations of an encoder-decoder.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "qkv/model/sequence/generation.h"
#include "qkv/model/sequence/text_model.h"
#include "qkv/train/network/loss.h"
#include "qkv/train/sequences/pairs.h"

namespace qkv::train {

struct PairScore {
  LossSum tokens;  // over the targets' tokens, end tokens among them, each after the right ones before it

  double loss() const { return tokens.rows > 0 ? tokens.loss / static_cast<double>(tokens.rows) : 0; }
  double perplexity() const { return std::exp(loss()); }
  double top1() const {
    return tokens.rows > 0 ? static_cast<double>(tokens.correct) / static_cast<double>(tokens.rows) : 0;
  }
};

/// The result does not depend on the number of threads. `stop` is polled from any thread; once it returns true, the
/// remaining lines are skipped and the score is invalid. cross: what replaces cross-attention's softmax.
PairScore EvaluatePairs(const model::TextModel& model, const PairSet& set, const model::TextTokens& tokens,
                        const std::function<bool()>& stop = {}, const nn::CrossWeights& cross = {});

/// The model's text for each source, without blanks at its ends. Throws Error as GenerateFromSources, and for a source
/// with more tokens than the model reads. Likewise with `stop`.
std::vector<std::string> TranslateTexts(const model::TextModel& model, std::span<const std::string> sources,
                                        const PairTokenizer& tokenizer, const model::GenerationSettings& settings,
                                        const std::function<bool()>& stop = {});

/// The most probable token each, at most twice as many as `longest`, the longest target, has, and 16.
model::GenerationSettings GreedySettings(int64_t longest, const model::SequenceConfig& decoder,
                                         const model::TextTokens& tokens);

}  // namespace qkv::train
