#include "qkv/lab/split.h"

#include "qkv/algebra/split.h"
#include "qkv/core/parallel.h"
#include "qkv/lab/pairs.h"
#include "qkv/model/layout/bound_tensor.h"

namespace qkv::lab {
namespace {

// The unit roundoff of a stored type.
double UnitRoundoff(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 0x1p-11;
    case DType::kBF16:
      return 0x1p-8;
    case DType::kF64:
      return 0x1p-53;
    default:
      return 0x1p-24;
  }
}

}  // namespace

Written Split(const model::Checkpoint& checkpoint, int64_t width, const std::filesystem::path& folder,
              const WriteOptions& options) {
  model::VitConfig target = checkpoint.description.config;
  Require(target.block.attention.kind == nn::AttentionKind::kMerged, "split: {} is not merged, its attention is {}",
          checkpoint.source, model::Name(target.block.attention.kind));
  Require(width >= 0 && width <= target.block.width, "split: expected a width of 1 to {}, got {}", target.block.width,
          width);
  if (width == 0) width = target.block.attention.head_width;
  const bool separate = width == target.block.attention.head_width;
  target.block.attention.kind = separate ? nn::AttentionKind::kSeparate : nn::AttentionKind::kLowRank;
  target.block.attention.qk_width = separate ? 0 : width;
  const auto make = [&](int64_t block) -> AttentionTensors {
    const auto layer = inspect::ReadAttention(checkpoint, block);
    const model::BoundTensor* stored = checkpoint.Find(fmt::format("blocks.{}.attn.qk.merged", block));
    const double rounding = UnitRoundoff(stored->parts[0]->dtype);
    HeadPairs pairs(static_cast<size_t>(layer.heads));
    ParallelFor(layer.heads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t head = begin; head < end; ++head) {
        const algebra::QueryKeyView pair{algebra::Head(layer.query, head, layer.heads),
                                         algebra::Head(layer.key, head, layer.heads)};
        const algebra::Merged merged = algebra::Merge(pair, algebra::Terms::kSoftmax);
        try {
          pairs[static_cast<size_t>(head)] = algebra::Split(merged, width, rounding);
        } catch (const Error& error) {
          Fail("{}: block {} head {}: {} (--width keeps more features)", checkpoint.source, block, head,
               EscapedText{error.what()});
        }
      }
    });
    return separate ? FusedTensors(pairs, layer) : UnfusedTensors(pairs, layer);
  };
  return WriteRewritten(checkpoint, target, make, folder, options);
}

}  // namespace qkv::lab
