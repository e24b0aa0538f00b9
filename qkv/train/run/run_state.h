// Where a run stands: everything beside its tensors that the next step depends on, as it is saved with them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/train/network/loss.h"

namespace qkv::train {

/// What the weights are worth.
struct Score {
  double loss = 0, top1 = 0;                         // mean loss, share of right answers
  bool by_loss = false;                              // the smaller loss is better, whatever is right
  std::vector<std::pair<std::string, double>> more;  // for the log, by name
};

struct RunState {
  int64_t step = 0;           // taken
  LossSum logged, evaluated;  // sums over the steps since the last line of the log, and since the last evaluation
  // Of the evaluations so far:
  int64_t evaluations = 0, best_epoch = 0;
  int64_t without_better = 0;  // since the best one
  double best_top1 = 0, best_loss = 0;
  uint64_t data = 0;            // Fingerprint of what it is trained on
  bool evaluation_due = false;  // it was stopped between `step` and the evaluation that belongs behind it

  /// Takes an evaluation in: more right answers are better, among as many a smaller loss. Whether it is the best.
  bool Rate(int64_t epoch, const Score& score);

  std::string ToJson() const;
  /// Throws Error that begins with `where` for anything that ToJson cannot have written: another type, a count that is
  /// negative or larger than the steps allow, a share outside of 0 to 1.
  static RunState FromJson(std::string_view text, std::string_view where);
};

}  // namespace qkv::train
