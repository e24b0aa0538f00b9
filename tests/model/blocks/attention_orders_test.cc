// What inference chooses, and what that costs.
#include "qkv/model/blocks/attention_orders.h"

#include <gtest/gtest.h>

#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/layout/cost.h"
#include "tests/support/goldens.h"

namespace qkv::model {
namespace {

using attention::Order;
using attention::Plan;

VitConfig MakeConfig(const std::string& golden) { return Checkpoint::Open(GoldenFolder(golden)).description.config; }

// Flops counts what each kind multiplies from its tensors' shapes.
TEST(AttentionOrders, CountWhatFlopsCounts) {
  for (const char* golden : {"timm_vit", "timm_kind_shared", "timm_kind_unified", "timm_kind_shared_kv",
                             "timm_kind_merged", "timm_kind_low_rank", "timm_kind_symmetric", "timm_one_head_wide"}) {
    VitConfig c = MakeConfig(golden);
    const AttentionOrders orders = PossibleOrders(c, {.read_rows = false}, 0, c.tokens());
    const Plan plain{orders.kind == nn::AttentionKind::kMerged ? Order::kMerged : Order::kProjected, Order::kProjected};
    double block = Flops(c);
    c.depth -= 1;
    block -= Flops(c);
    const double mlp = 2.0 * static_cast<double>(c.tokens() * c.block.width * c.block.mlp.width);
    EXPECT_EQ(MultiplyAdds(plain, orders), block / 2 - mlp) << golden;
  }
  for (const char* golden : {"timm_kind_gaussian", "timm_kind_positional"}) {
    const VitConfig c = MakeConfig(golden);
    const AttentionOrders orders = PossibleOrders(c, {}, 0, c.tokens());
    EXPECT_TRUE(orders.scores.empty());
    EXPECT_THROW(MultiplyAdds({}, orders), Error);
  }
}

TEST(AttentionOrders, AbsorbKeysAndValuesOrNeither) {
  VitConfig c = MakeConfig("timm_vit");
  c.block.attention.kind = nn::AttentionKind::kLowRank;
  c.image_height = c.image_width = c.patch_height;  // one patch behind two tokens, which are read
  c.distillation_token = true;
  c.block.attention.qk_width = c.block.attention.head_width = 8;
  const int64_t last = c.depth - 1;
  EXPECT_EQ(ChoosePlan(PossibleOrders(c, {}, last, 3)), (Plan{Order::kAbsorbed, Order::kAbsorbed}));
  EXPECT_TRUE(ChooseAttentionBuild(c, {}, last).absorbs);
  EXPECT_FALSE(ChooseAttentionBuild(c, {}, 0).absorbs);
  c.block.attention.head_width = 2;  // too narrow for absorbed values to pay
  const AttentionOrders orders = PossibleOrders(c, {}, last, 3);
  EXPECT_EQ(CheapestPlan(orders.workload, orders.scores), (Plan{Order::kAbsorbed, Order::kProjected}));
  EXPECT_EQ(ChoosePlan(orders), Plan{});
}

TEST(AttentionOrders, KeepAtAnotherSizeWhatWasMerged) {
  VitConfig c = MakeConfig("timm_one_head_wide");
  c.depth = 2;  // the first block of all rows, the last of the pooled ones
  const AttentionOrders orders = PossibleOrders(c, {}, 0, 1000);
  EXPECT_EQ(orders.scores, std::vector<Order>{Order::kMerged});
  EXPECT_EQ(orders.workload.keys, 1000);
  EXPECT_EQ(orders.workload.queries, 1000);
  const AttentionOrders last = PossibleOrders(c, {}, c.depth - 1, 1000);
  EXPECT_EQ(last.workload.queries, c.pool == Pool::kToken ? 1 : 1000);
  const AttentionOrders unmerged = PossibleOrders(c, {.merge = false}, 0, 1000);
  EXPECT_EQ(unmerged.scores, std::vector<Order>{Order::kProjected});
}

}  // namespace
}  // namespace qkv::model
