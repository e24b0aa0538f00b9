#include "qkv/lab/merge.h"

#include <algorithm>

#include "qkv/core/parallel.h"
#include "qkv/lab/pairs.h"

namespace qkv::lab {

Written Merge(const model::Checkpoint& checkpoint, const std::filesystem::path& folder, const WriteOptions& options) {
  RequireLinearScores(checkpoint, "merge");
  model::VitConfig target = checkpoint.description.config;
  Require(target.block.attention.kind != nn::AttentionKind::kMerged, "merge: {} is merged already", checkpoint.source);
  target.block.attention.kind = nn::AttentionKind::kMerged;
  target.block.attention.qk_width = 0;
  const int64_t H = target.block.attention.heads, D = target.block.width;
  const auto make = [&](int64_t block) {
    const auto layer = inspect::ReadAttention(checkpoint, block);
    auto matrices = Tensor<double>::Uninitialised({H, D, D});
    Tensor<double> key_terms({H, D});
    ParallelFor(H, 1, [&](int64_t begin, int64_t end) {
      for (int64_t head = begin; head < end; ++head) {
        const algebra::QueryKeyView pair{algebra::Head(layer.query, head, H), algebra::Head(layer.key, head, H)};
        const algebra::Merged merged = algebra::Merge(pair, algebra::Terms::kSoftmax);
        std::ranges::copy(merged.matrix.span(), matrices.data() + head * D * D);
        if (!merged.key_term.empty()) std::ranges::copy(merged.key_term.span(), key_terms.data() + head * D);
      }
    });
    AttentionTensors tensors;
    tensors.emplace("qk.merged", std::move(matrices));
    tensors.emplace("qk.key_term", std::move(key_terms));
    AddValues(layer, &tensors);
    return tensors;
  };
  return WriteRewritten(checkpoint, target, make, folder, options);
}

}  // namespace qkv::lab
