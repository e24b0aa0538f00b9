#include "qkv/app/attention/map_plan.h"

#include <fmt/format.h>

#include "qkv/app/open/parse.h"

namespace qkv::app {
namespace {

// "mean", "max" or "min"; nothing for any other name.
std::optional<inspect::Fusion> ParseFusion(std::string_view name) {
  if (name == "mean") return inspect::Fusion::kMean;
  if (name == "max") return inspect::Fusion::kMax;
  if (name == "min") return inspect::Fusion::kMin;
  return std::nullopt;
}

}  // namespace

std::string MapPlan::Reduce(int64_t map, int64_t most, bool may_leave_blocks, bool may_leave_heads, int64_t last) {
  const bool fewer_heads = weights(map) > most && may_leave_heads;
  if (fewer_heads) heads.clear(), fusion = inspect::Fusion::kMean, columns = {"mean"};
  const bool fewer_blocks = weights(map) > most && may_leave_blocks;
  if (fewer_blocks) blocks = {last}, rows = {fmt::format("block {}", last)};
  if (fewer_blocks) return fewer_heads ? "the mean of the last block's heads" : "the last block";
  return fewer_heads ? "the mean of the heads" : "";
}

MapPlan PlanMaps(const std::string& layers, const std::string& head, int64_t depth, int64_t heads, bool page) {
  MapPlan plan;
  plan.blocks = ParseList(!layers.empty() ? layers : page ? "all" : std::to_string(depth - 1), 0, depth - 1, "--layer");
  const std::string chosen = !head.empty() ? head : page ? "all" : "mean";
  plan.fusion = ParseFusion(chosen);
  if (plan.fusion) {
    plan.columns = {chosen};
  } else {
    plan.heads = ParseList(chosen, 0, heads - 1, "--head");
  }
  for (const int64_t block : plan.blocks) plan.rows.push_back(fmt::format("block {}", block));
  for (const int64_t h : plan.heads) plan.columns.push_back(fmt::format("head {}", h));
  return plan;
}

}  // namespace qkv::app
