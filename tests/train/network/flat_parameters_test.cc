// The layout of a flat buffer: every tensor of the table, once, aligned, and nothing on top of another.
#include "qkv/train/network/flat_parameters.h"

#include <gtest/gtest.h>

namespace qkv::train {
namespace {

model::VitConfig Small() {
  model::VitConfig config;
  config.image_height = config.image_width = 8;
  config.patch_height = config.patch_width = 4;
  config.block.width = 6, config.depth = 2, config.block.attention.heads = 2, config.block.attention.head_width = 3,
  config.block.mlp.width = 10;
  config.classes = 5;
  return config;
}

TEST(ParameterLayout, HoldsEveryTensorOnceAndAligned) {
  const ParameterLayout layout(Small());
  int64_t end = 0, elements = 0;
  for (const Slot& slot : layout.slots()) {
    EXPECT_GE(slot.offset, end) << slot.name;
    EXPECT_EQ(slot.offset * sizeof(float) % kAlignment, 0u) << slot.name;
    end = slot.offset + slot.shape.size();
    elements += slot.shape.size();
  }
  EXPECT_LE(end, layout.size());
  EXPECT_EQ(elements, model::Parameters(Small()));
}

TEST(ParameterLayout, ViewsPointIntoTheBuffer) {
  const ParameterLayout layout(Small());
  Tensor<float> buffer({layout.size()});
  const View<float> bias = layout.At("head.bias", buffer.view());
  EXPECT_EQ(bias.shape(), (Shape{5}));
  EXPECT_EQ(bias.data(), buffer.data() + layout.slots().back().offset);
  EXPECT_FALSE(layout.Has("blocks.2.norm1.weight"));
  EXPECT_THROW(layout.At("blocks.2.norm1.weight", buffer.view()), Error);
  EXPECT_THROW(layout.At("head.bias", buffer.view().slice(0, 0, 3)), Error);
}

TEST(ParameterLayout, OnlyWeightsDecay) {
  const ParameterLayout layout(Small());
  for (const Slot& slot : layout.slots()) {
    const bool matrix = slot.shape.rank() > 1 && !slot.name.ends_with("cls_token") && !slot.name.ends_with("pos_embed");
    EXPECT_EQ(slot.decays, matrix) << slot.name;
  }
}

}  // namespace
}  // namespace qkv::train
