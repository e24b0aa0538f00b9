// The call "plan": the cost of each exact order of attention's products in this model, where one becomes cheaper than
// another, and a map of that (attention/plan.h).
#pragma once

#include "qkv/explore/explored_model.h"
#include "qkv/explore/packet.h"

namespace qkv::explore {

/// "queries": "all", or how many tokens of a block have queries. Throws Error for a model whose scores come from
/// positions.
Packet AnswerPlan(ExploredModel& model, const io::Json& request);

}  // namespace qkv::explore
