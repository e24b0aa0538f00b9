#include "qkv/inspect/weights.h"

#include <gtest/gtest.h>

#include "tests/support/checkpoints.h"
#include "tests/support/files.h"

namespace qkv::inspect {
namespace {

TEST(AttentionWeights, AreTheRowsOfTheFusedProjection) {
  const TemporaryFolder folder;
  const io::Json json = TinyConfig();
  const model::Checkpoint shapes = [&] {
    WriteFile(folder / "config.json", json.dump());
    TensorSet tensors(model::DescribeTimm(json).config);
    tensors.Write(folder / "model.safetensors");
    return model::Checkpoint::Open(folder.path());
  }();
  TensorSet tensors(shapes.description.config);
  const Tensor<float>& fused = tensors.at("blocks.1.attn.qkv.weight");  // [3·16, 16]
  const Tensor<float>& bias = tensors.at("blocks.1.attn.qkv.bias");
  const AttentionWeights<float> weights = ReadAttention<float>(shapes, 1);
  EXPECT_EQ(weights.heads, 4);
  EXPECT_EQ(weights.query.weight.shape(), Shape({16, 16}));
  for (int64_t i = 0; i < 16; ++i) {
    EXPECT_EQ(weights.query.bias[i], bias[i]);
    EXPECT_EQ(weights.key.bias[i], bias[16 + i]);
    EXPECT_EQ(weights.value.bias[i], bias[32 + i]);
    EXPECT_EQ(weights.gamma[i], tensors.at("blocks.1.norm1.weight")[i]);
    EXPECT_EQ(weights.beta[i], tensors.at("blocks.1.norm1.bias")[i]);
    for (int64_t d = 0; d < 16; ++d) {
      EXPECT_EQ(*weights.query.weight.view().at(i, d), *fused.view().at(i, d));
      EXPECT_EQ(*weights.key.weight.view().at(i, d), *fused.view().at(16 + i, d));
      EXPECT_EQ(*weights.value.weight.view().at(i, d), *fused.view().at(32 + i, d));
      EXPECT_EQ(*weights.output.weight.view().at(i, d), *tensors.at("blocks.1.attn.proj.weight").view().at(i, d));
    }
  }
  EXPECT_THROW(ReadAttention<float>(shapes, 2), Error);
  EXPECT_THROW(ReadAttention<float>(shapes, -1), Error);
}

}  // namespace
}  // namespace qkv::inspect
