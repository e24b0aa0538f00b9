// Loss and accuracy of a sequence model.
#pragma once

#include <cstdint>
#include <functional>

#include "qkv/model/sequence/sequence_model.h"
#include "qkv/train/network/loss.h"
#include "qkv/train/sequences/sequences.h"

namespace qkv::train {

struct SequenceScore {
  LossSum tokens;                    // over tokens with a label
  int64_t sequences = 0, whole = 0;  // all, and those with every answer correct

  /// Mean −log p of the label; its exponential is the perplexity.
  double loss() const { return Mean(tokens.loss, tokens.rows); }
  double perplexity() const;
  double top1() const { return Mean(static_cast<double>(tokens.correct), tokens.rows); }
  double whole_sequences() const { return Mean(static_cast<double>(whole), sequences); }

 private:
  static double Mean(double sum, int64_t count) { return count > 0 ? sum / static_cast<double>(count) : 0; }
};

/// Evaluates all sequences of the set, each of `length` tokens. The result does not depend on the number of threads.
/// Throws Error if the model does not support this length, or a token or label is out of its range. `stop` is polled
/// from any thread; once it returns true, remaining sequences are skipped and the score is invalid.
SequenceScore Evaluate(const model::SequenceModel<float>& model, const SequenceSet& set, int64_t length,
                       const std::function<bool()>& stop = {});

}  // namespace qkv::train
