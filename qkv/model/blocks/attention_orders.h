// The possible orders of the products of a model's attention, and the one that inference takes. Building layers,
// reading few rows and `qkv qk plan` all use this. Not here: the costs of the orders (attention/plan.h).
#pragma once

#include <vector>

#include "qkv/attention/plan.h"
#include "qkv/model/blocks/options.h"
#include "qkv/model/config/vit_config.h"

namespace qkv::model {

/// Number of tokens of a block, from the first, that pooling alone reads: in the last block 1 or 2, or all.
int64_t RowsPooled(const VitConfig& config, int64_t block, int64_t tokens);

/// The attention of one block in a forward pass that computes the logits of one image.
struct AttentionOrders {
  nn::AttentionKind kind = nn::AttentionKind::kSeparate;  // the kind of the checkpoint
  attention::Workload workload;
  std::vector<attention::Order> scores;   // possible orders; empty if scores are positional
  std::vector<attention::Order> outputs;  // projected and, if few rows are read, absorbed
};

/// tokens: config.tokens() while the layers are built. For an image of another size, the decision to merge stays as it
/// was when the layers were built.
AttentionOrders PossibleOrders(const VitConfig& config, const BuildOptions& options, int64_t block, int64_t tokens);

/// The plan of inference: merged scores if they are cheapest, otherwise the absorbed order for both chains or for
/// neither, because one product makes keys and values.
attention::Plan ChoosePlan(const AttentionOrders& orders);

/// attention::MultiplyAdds, but counting a product once if the kind uses it twice: queries that are keys, values that
/// are keys. Not for positional kinds.
double MultiplyAdds(const attention::Plan& plan, const AttentionOrders& orders);

/// How to build the layer so that it can follow the plan.
AttentionBuild ChooseAttentionBuild(const VitConfig& config, const BuildOptions& options, int64_t block);

}  // namespace qkv::model
