// The orders of attention's products in a model's blocks: what inference takes, and what it saves.
#pragma once

#include <string>
#include <vector>

#include "qkv/attention/plan.h"
#include "qkv/io/json.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/report/table.h"

namespace qkv::lab {

/// Neighbouring blocks of one plan; multiply-adds of one block's attention.
struct BlockPlan {
  int64_t first = 0, last = 0;
  attention::Workload workload;
  attention::Plan plan;
  double chosen = 0;       // of the plan
  double projected = 0;    // of the order of the formulas, in which the original libraries compute
  double of_all_rows = 0;  // of that order, for rows that are not read too
  std::string merging;     // whether merging the scores pays

  double saved() const { return 1 - chosen / of_all_rows; }
};

struct ModelPlan {
  std::vector<BlockPlan> blocks;
  double chosen = 0, of_all_rows = 0;  // of all blocks

  double saved() const { return 1 - chosen / of_all_rows; }
};

/// tokens: of an image of the size that is computed. Throws Error if the model's attention leaves nothing to plan.
ModelPlan PlanModel(const model::Checkpoint& checkpoint, int64_t tokens, int64_t batch);

report::Table ToTable(const ModelPlan& plan);
/// "Block 3, scores: Merging does not pay: …" for each of the blocks.
std::vector<std::string> MergingVerdicts(const ModelPlan& plan);
io::Json ToJson(const BlockPlan& plan);

}  // namespace qkv::lab
