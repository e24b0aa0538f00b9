// In which orders the products of a model's attention can be computed, and which of them inference takes. The one place
// that building the layers, reading few rows and `qkv qk plan` ask. The orders' costs are attention/plan.h's.
#pragma once

#include <vector>

#include "qkv/attention/plan.h"
#include "qkv/model/vit.h"

namespace qkv::model {

/// Tokens of a block that somebody reads where pooling alone does, the first ones: in the last block 1 or 2, or all.
int64_t RowsPooled(const VitConfig& config, int64_t block, int64_t tokens);

/// The attention of one block in a forward pass for logits, of one image.
struct AttentionOrders {
  nn::AttentionKind kind = nn::AttentionKind::kSeparate;  // the checkpoint's
  attention::Workload workload;
  std::vector<attention::Order> scores;   // to choose from; none where scores come from places
  std::vector<attention::Order> outputs;  // projected, and, where few rows are read, absorbed
};

/// `tokens`: config.tokens() while the layers are built. Of an image of another size, what building them has decided,
/// which is whether to merge, is no longer open.
AttentionOrders OrdersOf(const VitConfig& config, const BuildOptions& options, int64_t block, int64_t tokens);

/// What inference takes: merged scores where they are the cheapest, else the absorbed order for both chains or for
/// none, as one product makes keys and values.
attention::Plan PlanOf(const AttentionOrders& orders);

/// attention::MultiplyAdds, without the products that the kind makes once for two: queries that are keys, values that
/// are keys. Not for kinds whose scores come from places.
double MultiplyAdds(const attention::Plan& plan, const AttentionOrders& orders);

/// How the layer is built so that it can follow the plan.
AttentionWay WayOf(const VitConfig& config, const BuildOptions& options, int64_t block);

}  // namespace qkv::model
