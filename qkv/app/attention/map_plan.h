// Which blocks and heads maps of attention show, in the words of `qkv attend`: for images and for texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "qkv/inspect/fusion.h"

namespace qkv::app {

struct MapPlan {
  std::vector<int64_t> blocks, heads;      // heads: none if they are fused
  std::optional<inspect::Fusion> fusion;   // of all heads
  std::vector<std::string> rows, columns;  // names of the blocks and of the heads

  /// Numbers in all maps of so many each.
  int64_t weights(int64_t map) const { return static_cast<int64_t>(rows.size() * columns.size()) * map; }

  /// If there are more than `most` numbers, leaves out heads, then blocks, if it may: the mean of the heads stands for
  /// them, the block `last` for the others. Returns what is left, in words, or nothing if all is.
  std::string Reduce(int64_t map, int64_t most, bool may_leave_blocks, bool may_leave_heads, int64_t last);
};

/// layers: blocks from 0, "11", "0,5,11" or "all"; empty: the last, or all for a page. head: "3", "0,3", "all", or
/// "mean", "max", "min" of the heads; empty: mean, or all for a page. Throws Error for others than there are.
MapPlan PlanMaps(const std::string& layers, const std::string& head, int64_t depth, int64_t heads, bool page);

}  // namespace qkv::app
