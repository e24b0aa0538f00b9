// How good a sequence model's answers are.
#pragma once

#include <cstdint>
#include <functional>

#include "qkv/model/sequence_model.h"
#include "qkv/train/network/loss.h"
#include "qkv/train/sequences/sequences.h"

namespace qkv::train {

struct SequenceScore {
  LossSum tokens;                    // those that something is asked of
  int64_t sequences = 0, whole = 0;  // all, and those whose every answer is right

  /// Mean of −log of the right answer's probability; e to that is the perplexity.
  double loss() const { return Mean(tokens.loss, tokens.rows); }
  double perplexity() const;
  double top1() const { return Mean(static_cast<double>(tokens.correct), tokens.rows); }
  double whole_sequences() const { return Mean(static_cast<double>(whole), sequences); }

 private:
  static double Mean(double sum, int64_t count) { return count > 0 ? sum / static_cast<double>(count) : 0; }
};

/// Of all sequences of the set, each of `length` tokens. The same for any number of threads. Throws Error when the
/// model takes no sequences of this length, or a token or an answer is none of its. `stop` is asked from any thread:
/// what is not done when it says yes is left out, and the score is not to be used.
SequenceScore Evaluate(const model::SequenceModel<float>& model, const SequenceSet& set, int64_t length,
                       const std::function<bool()>& stop = {});

}  // namespace qkv::train
