#include "qkv/lab/plan_model.h"

#include <fmt/format.h>

#include "qkv/lab/plan_shapes.h"
#include "qkv/model/blocks/attention_orders.h"
#include "qkv/model/config/separation.h"

namespace qkv::lab {
namespace {

using attention::Order;
using attention::Plan;
using attention::Read;
using attention::Workload;

// Whether merging the scores of a model's block pays, against the orders that inference has; sums are never merged.
std::string BlockVerdict(const model::AttentionOrders& orders) {
  if (orders.kind == nn::AttentionKind::kMerged) return "Queries and keys are merged in the checkpoint.";
  std::vector<Order> unmerged = orders.scores;
  if (orders.workload.keys_are_linear && std::erase(unmerged, Order::kMerged) == 0) {
    return fmt::format("Merging does not apply: separate and low_rank attention is merged, {} is not.",
                       model::Name(orders.kind));
  }
  Workload scores = orders.workload;
  scores.read = Read::kScores;
  return MergingVerdict(scores, unmerged);
}

// Throws Error if a model's attention leaves nothing to plan.
void RequireChoice(const model::VitConfig& c) {
  const std::string none = model::PairObstruction(c.block.attention.kind);
  Require(none.empty(), "plan: nothing to plan, the model's attention is {}: {}", model::Name(c.block.attention.kind),
          none);
  const auto outputs = model::PossibleOrders(c, {}, c.depth - 1, c.tokens()).outputs;
  Require(c.block.attention.kind != nn::AttentionKind::kMerged || outputs.size() > 1,
          "plan: nothing to plan, the model's attention is {} already, and all rows are read",
          model::Name(c.block.attention.kind));
}

// "3", or "0-2"
std::string Range(const BlockPlan& plan) {
  return plan.first == plan.last ? fmt::format("{}", plan.first) : fmt::format("{}-{}", plan.first, plan.last);
}

}  // namespace

ModelPlan PlanModel(const model::Checkpoint& checkpoint, int64_t tokens, int64_t batch) {
  const model::VitConfig c = model::InputConfig(checkpoint.description);
  RequireChoice(c);
  const auto orders_of = [&](int64_t block, int64_t looked_at) {
    model::AttentionOrders orders = model::PossibleOrders(c, {}, block, looked_at);
    orders.workload.batch = batch;
    return orders;
  };
  const Plan plain{c.block.attention.kind == nn::AttentionKind::kMerged ? Order::kMerged : Order::kProjected,
                   Order::kProjected};
  ModelPlan all;
  for (int64_t begin = 0, end; begin < c.depth; begin = end) {
    const model::AttentionOrders orders = orders_of(begin, tokens);
    const Workload& w = orders.workload;
    for (end = begin + 1; end < c.depth && orders_of(end, tokens).workload.queries == w.queries;) ++end;
    model::AttentionOrders whole = orders;
    whole.workload.queries = w.keys;
    const Plan plan = ChoosePlan(orders);
    all.blocks.push_back({.first = begin,
                          .last = end - 1,
                          .workload = w,
                          .plan = plan,
                          .chosen = MultiplyAdds(plan, orders),
                          .projected = MultiplyAdds(plain, orders),
                          .of_all_rows = MultiplyAdds(plain, whole),
                          .merging = BlockVerdict(orders_of(begin, c.tokens()))});  // decided for the trained size
    const auto count = static_cast<double>(end - begin);
    all.chosen += count * all.blocks.back().chosen, all.of_all_rows += count * all.blocks.back().of_all_rows;
  }
  return all;
}

report::Table ToTable(const ModelPlan& plan) {
  report::Table table;
  table.columns = {{"blocks", report::Align::kLeft},
                   {"rows read"},
                   {"order", report::Align::kLeft},
                   {"multiply-adds"},
                   {"projected"},
                   {"of all rows"},
                   {"saved"}};
  for (const BlockPlan& blocks : plan.blocks) {
    table.rows.push_back({Range(blocks), fmt::format("{} of {}", blocks.workload.queries, blocks.workload.keys),
                          PlanName(blocks.plan, blocks.workload), ShortCount(blocks.chosen),
                          ShortCount(blocks.projected), ShortCount(blocks.of_all_rows),
                          fmt::format("{:.1f} %", 100 * blocks.saved())});
  }
  return table;
}

std::vector<std::string> MergingVerdicts(const ModelPlan& plan) {
  std::vector<std::string> verdicts;
  for (const BlockPlan& blocks : plan.blocks) {
    verdicts.push_back(fmt::format("{} {}, scores: {}", blocks.first == blocks.last ? "Block" : "Blocks", Range(blocks),
                                   blocks.merging));
  }
  return verdicts;
}

io::Json ToJson(const BlockPlan& plan) {
  return {{"first_block", plan.first},    {"last_block", plan.last},          {"rows", plan.workload.queries},
          {"tokens", plan.workload.keys}, {"scores", Name(plan.plan.scores)}, {"outputs", Name(plan.plan.outputs)},
          {"multiply_adds", plan.chosen}, {"projected", plan.projected},      {"projected_all_rows", plan.of_all_rows},
          {"saved", plan.saved()},        {"merging", plan.merging}};
}

}  // namespace qkv::lab
