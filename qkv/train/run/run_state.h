// Progress of a run: everything besides tensors that the next step depends on. It is saved with the tensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/train/network/loss.h"

namespace qkv::train {

/// Result of an evaluation.
struct Score {
  double loss = 0, top1 = 0;                         // mean loss, fraction of correct predictions
  bool by_loss = false;                              // rank by loss instead of accuracy
  std::vector<std::pair<std::string, double>> more;  // more values for the log, by name
};

struct RunState {
  int64_t step = 0;           // steps taken
  LossSum logged, evaluated;  // sums over the steps since the last log line, and since the last evaluation
  // Over the evaluations so far:
  int64_t evaluations = 0, best_epoch = 0;
  int64_t without_better = 0;  // evaluations since the best one
  double best_top1 = 0, best_loss = 0;
  uint64_t data = 0;            // Fingerprint of the training data
  bool evaluation_due = false;  // stopped between `step` and the evaluation due after it

  /// Records an evaluation. Greater accuracy is better; at equal accuracy, smaller loss. Returns true if it is the
  /// best.
  bool Rate(int64_t epoch, const Score& score);

  std::string ToJson() const;
  /// Throws Error, prefixed with `where`, for anything that ToJson cannot have written: another type, a count that is
  /// negative or larger than the steps allow, a fraction outside 0 to 1.
  static RunState FromJson(std::string_view text, std::string_view where);
};

}  // namespace qkv::train
