#include "qkv/lab/truncate.h"

#include <algorithm>
#include <cmath>

#include "qkv/algebra/truncate.h"
#include "qkv/core/parallel.h"
#include "qkv/lab/pairs.h"

namespace qkv::lab {

namespace fs = std::filesystem;
using algebra::AttentionError;
using algebra::QueryKey;
using algebra::Terms;

namespace {

// Combines errors on several images into the error on all of them.
class ErrorSum {
 public:
  void Add(const AttentionError& e) {
    squares_ += e.logits * e.logits, relative_squares_ += e.logits_relative * e.logits_relative;
    sum_.logits_max = std::max(sum_.logits_max, e.logits_max);
    sum_.attention_max = std::max(sum_.attention_max, e.attention_max);
    sum_.attention_mean += e.attention_mean;
    ++images_;
  }
  AttentionError Total() const {
    AttentionError total = sum_;
    total.logits = std::sqrt(squares_);
    total.logits_relative = std::sqrt(relative_squares_ / images_);
    total.attention_mean /= images_;
    return total;
  }

 private:
  AttentionError sum_;
  double squares_ = 0, relative_squares_ = 0;
  int images_ = 0;
};

}  // namespace

Written Truncate(const model::Checkpoint& checkpoint, const fs::path& folder, const TruncateOptions& options) {
  RequireLinearScores(checkpoint, "truncate");
  model::VitConfig target = checkpoint.description.config;
  const int64_t width = target.block.attention.kind == nn::AttentionKind::kMerged
                            ? target.block.width
                            : target.block.attention.query_width();
  const int64_t greatest = std::min(width, target.block.width);
  Require(options.rank >= 1 && options.rank <= greatest, "truncate: expected a rank from 1 to {}, got {}", greatest,
          options.rank);
  target.block.attention.kind = nn::AttentionKind::kLowRank;
  target.block.attention.qk_width = options.rank;
  const auto make = [&](int64_t block) {
    const auto layer = inspect::ReadAttention(checkpoint, block);
    HeadPairs pairs = MakeHeadPairs(layer);
    Tensor<double> queries, keys;
    if (options.calibration) {
      queries = options.calibration->All(block, /*centred=*/false);
      keys = options.calibration->All(block, /*centred=*/true);
    }
    ParallelFor(layer.heads, 1, [&](int64_t begin, int64_t end) {
      for (auto head = static_cast<size_t>(begin); head < static_cast<size_t>(end); ++head) {
        pairs[head] = options.calibration
                          ? algebra::TruncateForData(pairs[head], queries, keys, options.rank, Terms::kSoftmax)
                          : algebra::Truncate(pairs[head], options.rank, Terms::kSoftmax);
      }
    });
    return UnfusedTensors(pairs, layer);
  };
  Written written = WriteRewritten(checkpoint, target, make, folder, options.write);
  if (options.calibration) {
    const int64_t tokens = options.calibration->tokens(), D = target.block.width;
    if (tokens < 4 * D) {
      written.notes.push_back(fmt::format(
          "{} tokens of {} features are few to calibrate on: it may be the best for these alone", tokens, D));
    }
  }
  return written;
}

std::vector<HeadError> CompareHeads(const model::Checkpoint& original, const model::Checkpoint& rewritten,
                                    const BlockTokens& tokens) {
  const model::VitConfig &a = original.description.config, &b = rewritten.description.config;
  Require(a.depth == b.depth && a.block.attention.heads == b.block.attention.heads && a.block.width == b.block.width &&
              a.block.attention.head_width == b.block.attention.head_width,
          "compare: expected models of one shape, got {} and {}", original.source, rewritten.source);
  std::vector<HeadError> errors(static_cast<size_t>(a.depth * a.block.attention.heads));
  for (int64_t block = 0; block < a.depth; ++block) {
    const auto before = inspect::ReadAttention(original, block);
    const HeadPairs old_pairs = MakeHeadPairs(before);
    const HeadPairs new_pairs = MakeHeadPairs(inspect::ReadAttention(rewritten, block));
    ParallelFor(a.block.attention.heads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t head = begin; head < end; ++head) {
        const auto h = static_cast<size_t>(head);
        ErrorSum sum;
        for (int64_t image = 0; image < tokens.images(); ++image) {
          const Tensor<double> x = tokens.Of(block, image);
          sum.Add(algebra::Compare(old_pairs[h], new_pairs[h], x, x, before.scale, Terms::kSoftmax));
        }
        errors[static_cast<size_t>(block * a.block.attention.heads + head)] = {block, head, sum.Total()};
      }
    });
  }
  return errors;
}

}  // namespace qkv::lab
