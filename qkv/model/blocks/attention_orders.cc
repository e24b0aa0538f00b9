#include "qkv/model/blocks/attention_orders.h"

#include "qkv/core/error.h"

namespace qkv::model {

using attention::Order;
using nn::AttentionKind;

int64_t RowsPooled(const VitConfig& c, int64_t block, int64_t tokens) {
  if (block + 1 < c.depth || c.pool != Pool::kToken || c.mask_classes > 0) return tokens;
  if (c.detection_classes > 0) return c.prefix();
  return c.distillation_head || c.distillation_token ? 2 : 1;
}

// Merged matrices have more weights than W_Q and W_K, so merging pays only for wide heads: see
// attention::MergingPaysAbove. Lower precisions do not merge: rounding M, a product, would lose more than rounding its
// factors.
AttentionOrders PossibleOrders(const VitConfig& c, const BuildOptions& options, int64_t block, int64_t tokens) {
  const int64_t N = c.tokens(), rows = options.read_rows ? RowsPooled(c, block, N) : N;
  AttentionOrders orders;
  orders.kind = c.block.attention.kind;
  orders.workload = {.queries = rows,
                     .keys = N,
                     .width = c.block.width,
                     .heads = c.block.attention.heads,
                     .head_width = c.block.attention.query_width(),
                     .keys_are_linear = c.scores_are_bilinear(),
                     .projection = c.block.attention.projection,
                     .value_width = c.block.attention.head_width};
  const nn::AttentionConfig& a = c.block.attention;
  // Absorbed and merged orders drop what is the same for all keys of a query, which only a plain softmax cancels.
  const bool absorbs =
      options.absorb && c.scores_are_bilinear() && !a.groups_heads() && !a.has_window() && !a.sinks && rows < N;
  orders.outputs = {Order::kProjected};
  if (absorbs) orders.outputs.push_back(Order::kAbsorbed);
  if (c.block.attention.kind == AttentionKind::kMerged) {
    orders.scores = {Order::kMerged};
  } else if (!nn::IsPositional(c.block.attention.kind)) {
    orders.scores = orders.outputs;
    const bool mergeable =
        !a.groups_heads() && !a.sinks && (a.kind == AttentionKind::kSeparate || a.kind == AttentionKind::kLowRank);
    if (options.merge && mergeable && c.scores_are_bilinear() && options.precision == simd::Precision::kFloat32) {
      orders.scores.push_back(Order::kMerged);
    }
  }
  if (tokens == N) return orders;

  if (ChoosePlan(orders).scores == Order::kMerged) {
    orders.scores = {Order::kMerged};
  } else {
    std::erase(orders.scores, Order::kMerged);
  }
  orders.workload.keys = tokens;
  if (rows == N) orders.workload.queries = tokens;
  return orders;
}

attention::Plan ChoosePlan(const AttentionOrders& orders) {
  const attention::Plan plan{CheapestPlan(orders.workload, orders.scores).scores,
                             CheapestPlan(orders.workload, orders.outputs).outputs};
  const bool both_or_neither = !orders.scores.empty() && plan.scores != Order::kMerged;
  return both_or_neither && plan.scores != plan.outputs ? attention::Plan{} : plan;
}

double MultiplyAdds(const attention::Plan& plan, const AttentionOrders& orders) {
  const attention::Workload& w = orders.workload;
  Require(!orders.scores.empty(), "plan: scores of attention of kind {} come from places, not from products of tokens",
          Name(orders.kind));
  const double of_row = static_cast<double>(w.batch * w.heads) * static_cast<double>(w.width);
  double twice = 0;
  if (nn::QueriesAreKeys(orders.kind) && plan.scores == Order::kProjected) {
    twice += of_row * static_cast<double>(w.queries) * static_cast<double>(w.head_width);
  }
  if (nn::ValuesAreKeys(orders.kind) && plan.scores == Order::kProjected && plan.outputs == Order::kProjected) {
    twice += of_row * static_cast<double>(w.keys) * static_cast<double>(w.values());
  }
  return attention::MultiplyAdds(plan, w) - twice;
}

AttentionBuild ChooseAttentionBuild(const VitConfig& c, const BuildOptions& options, int64_t block) {
  const AttentionOrders orders = PossibleOrders(c, options, block, c.tokens());
  AttentionBuild build{c.block.attention.kind, orders.outputs.back() == Order::kAbsorbed,
                       orders.workload.queries < orders.workload.keys, c.rotary != PatchRotary::kNone, block};
  if (ChoosePlan(orders).scores == Order::kMerged) build.kind = AttentionKind::kMerged;
  return build;
}

}  // namespace qkv::model
