#include "qkv/attention/plan.h"

#include <gtest/gtest.h>

namespace qkv::attention {
namespace {

TEST(Plan, CountsMultiplyAdds) {
  const Workload w{.queries = 2, .keys = 5, .width = 7, .heads = 3, .head_width = 4};
  // K and V: 2 · 5·7·12; scores and sums: 2 · 2·5·12.
  EXPECT_EQ(MultiplyAdds(Order::kProjected, w), 2 * 5 * 7 * 12 + 2 * 2 * 5 * 12);
  // Q W_K and (sums) W_V: 2 · 2·12·7; scores and sums over D: 2 · 2·5·3·7.
  EXPECT_EQ(MultiplyAdds(Order::kAbsorbed, w), 2 * 2 * 12 * 7 + 2 * 2 * 5 * 3 * 7);
}

TEST(Plan, FewRowsAreAbsorbedManyAreNot) {
  Workload vit_b{.queries = 1, .keys = 197, .width = 768, .heads = 12, .head_width = 64};
  EXPECT_EQ(CheapestOrder(vit_b), Order::kAbsorbed);
  vit_b.queries = 197;
  EXPECT_EQ(CheapestOrder(vit_b), Order::kProjected);
  vit_b.queries = 1;
  vit_b.keys_are_linear = false;
  EXPECT_EQ(CheapestOrder(vit_b), Order::kProjected);
}

}  // namespace
}  // namespace qkv::attention
