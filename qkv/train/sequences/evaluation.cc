#include "qkv/train/sequences/evaluation.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "qkv/core/arena.h"
#include "qkv/core/parallel.h"

namespace qkv::train {
namespace {

// Tokens per thread and batch, in whole sequences: enough rows for efficient products.
constexpr int64_t kTokens = 512;

// Scratch memory of one thread.
struct Lane {
  Arena arena;
  Tensor<int32_t> tokens;
  Tensor<int64_t> labels;
  Tensor<float> logits;
};

}  // namespace

double SequenceScore::perplexity() const { return std::exp(loss()); }

SequenceScore Evaluate(const model::SequenceModel<float>& model, const SequenceSet& set, int64_t length,
                       const std::function<bool()>& stop) {
  const int64_t together = std::max<int64_t>(1, kTokens / length), count = set.size();
  std::vector<LossSum> sums(static_cast<size_t>(count));
  std::vector<Lane> lanes(static_cast<size_t>(NumThreads()));
  ParallelTasks((count + together - 1) / together, [&](int64_t piece, int thread) {
    if (stop && stop()) return;
    Lane& lane = lanes[static_cast<size_t>(thread)];
    const int64_t first = piece * together, B = std::min(together, count - first);
    lane.tokens.Reuse({B, length});
    lane.labels.Reuse({B, length});
    lane.logits.Reuse({B, length, model.config().outputs});
    set.Get(first, lane.tokens, lane.labels);
    model.Logits(lane.tokens.view(), lane.arena, lane.logits);
    for (int64_t b = 0; b < B; ++b) {
      const View<float> logits = lane.logits.view()[b];
      const std::span<const int64_t> labels(lane.labels.view().row(b), static_cast<size_t>(length));
      sums[static_cast<size_t>(first + b)] = CrossEntropy<float>(logits, labels, {}, logits);
    }
  });
  SequenceScore score;
  score.sequences = count;
  for (const LossSum& sum : sums) {
    score.tokens += sum;
    if (sum.correct == sum.rows) ++score.whole;
  }
  return score;
}

}  // namespace qkv::train
