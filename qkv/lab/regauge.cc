#include "qkv/lab/regauge.h"

#include "qkv/core/parallel.h"
#include "qkv/lab/pairs.h"

namespace qkv::lab {

Written Regauge(const model::Checkpoint& checkpoint, algebra::Gauge gauge, const std::filesystem::path& folder,
                const WriteOptions& options) {
  RequireLinearScores(checkpoint, "regauge");
  const model::VitConfig& config = checkpoint.description.config;
  const nn::AttentionKind kind = config.block.attention.kind;
  Require(kind == nn::AttentionKind::kSeparate || kind == nn::AttentionKind::kLowRank,
          "regauge: {}: expected W_Q and W_K of their own, its attention is {}", checkpoint.source, model::Name(kind));
  const auto make = [&](int64_t block) {
    const auto layer = inspect::ReadAttention(checkpoint, block);
    HeadPairs pairs = MakeHeadPairs(layer);
    ParallelFor(layer.heads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t head = begin; head < end; ++head) {
        algebra::QueryKey& pair = pairs[static_cast<size_t>(head)];
        const algebra::ProjectionView query = pair.query;
        try {
          pair = algebra::Regauge(pair, algebra::FixGauge(gauge, {&query, 1}, pair.key));
        } catch (const Error& error) {
          Fail("{}: block {} head {}: {} (merging and splitting the model balances weights of any rank)",
               checkpoint.source, block, head, EscapedText{error.what()});
        }
        // Some layouts have no place for the keys' bias, which then is zero: also in its sign.
        for (double& bias : pair.key.bias.span()) bias += 0.0;
      }
    });
    AttentionTensors tensors =
        kind == nn::AttentionKind::kSeparate ? FusedTensors(pairs, layer) : UnfusedTensors(pairs, layer);
    std::erase_if(tensors, [](const auto& tensor) { return tensor.first.starts_with("v."); });  // as they were
    return tensors;
  };
  return WriteRewritten(checkpoint, config, make, folder, options, ReplacedTensors::kAllMade);
}

}  // namespace qkv::lab
