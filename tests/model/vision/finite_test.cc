// Answers that are not finite are found, and traced to where they begin.

#include "qkv/model/blocks/finite.h"

#include <gtest/gtest.h>

#include <limits>

#include "qkv/model/families/describe.h"
#include "qkv/model/layout/tensor_table.h"
#include "qkv/model/model.h"
#include "qkv/model/sequence/sequence_model.h"
#include "qkv/model/vision/where_not_finite.h"
#include "tests/support/checkpoints.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv::model {
namespace {

// A model one weight of which is huge.
class Overflow : public testing::Test {
 protected:
  Model With(const std::string& tensor, float weight, const BuildOptions& options = {}) {
    const io::Json config = TinyConfig();
    TensorSet tensors(DescribeTimm(config).config);
    tensors.at(tensor)[0] = weight;
    tensors.Write(folder_ / "model.safetensors");
    WriteFile(folder_ / "config.json", config.dump());
    return Model::Load(folder_.path(), options);
  }

  const TemporaryFolder folder_;
  const Tensor<float> pixels_ = Sampler(3).Normal<float>({1, 1, 8, 8});
};

// The bias makes tokens huge, and the norm that meets them next overflows.
TEST_F(Overflow, IsTracedToItsBlock) {
  for (const auto& [tensor, where] : {std::pair{"patch_embed.proj.bias", "block 0 of 0 to 1"},
                                      {"blocks.0.mlp.fc2.bias", "block 1 of 0 to 1"},
                                      {"blocks.1.mlp.fc2.bias", "what follows the blocks"}}) {
    const std::string found = WhereNotFinite(With(tensor, 3e38f).vit(), pixels_);
    EXPECT_EQ(found.find(where), 0u) << tensor << ": " << found;
  }
  Tensor<float> pixels({1, 1, 8, 8});
  pixels[5] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(WhereNotFinite(With("head.bias", 1).vit(), pixels), "its pixels");
}

// PyTorch gives NaN; 1 / sqrt(infinity) = 0 would make every image the same.
TEST_F(Overflow, OfAHiddenLayerIsNoPlausibleAnswer) {
  for (const auto precision : {simd::Precision::kFloat32, simd::Precision::kBfloat16, simd::Precision::kInt8}) {
    for (const bool fold : {true, false}) {
      const Model model = With("blocks.0.mlp.fc1.bias", 1e30f, {.precision = precision, .fold_norms = fold});
      const Tensor<float> logits = model.Logits(pixels_);
      EXPECT_FALSE(AllFinite(logits.data(), logits.size())) << logits[0] << simd::Describe(precision).kernel;
      const std::string message = ErrorMessage([&] { RequireFinite(model.vit(), pixels_, logits, "photo.jpg"); });
      EXPECT_EQ(message.find("photo.jpg: "), 0u) << message;
      EXPECT_NE(message.find("block 1 of 0 to 1"), std::string::npos) << message;
    }
  }
}

TEST_F(Overflow, ClassifyRefusesIt) {
  const Model model = With("head.weight", 3.4e38f);
  const image::Image image{Tensor<uint8_t>({8, 8, 1})};
  EXPECT_NE(ErrorMessage([&] { model.Classify(image); }), "");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(ErrorMessage([&] { model.Top(std::vector<float>{1, nan, 2}, 3); }).find("NaN"), std::string::npos);
}

TEST(FirstNotFinite, FindsTheImage) {
  Tensor<float> values({5, 33});
  EXPECT_EQ(FirstNotFinite(values), -1);
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    for (int64_t at = 0; at < values.size(); ++at) {
      values[at] = bad;
      EXPECT_EQ(FirstNotFinite(values), at / 33);
      values[at] = 0;
    }
  }
}

TEST(SequenceOverflow, IsTracedToItsBlock) {
  SequenceConfig c;
  c.vocabulary = 8, c.outputs = 8, c.length = 6, c.block.width = 16, c.depth = 3, c.block.attention.heads = 2,
  c.block.attention.head_width = 8, c.block.mlp.width = 64;
  TensorSet tensors(TensorTable(c));
  tensors.at("blocks.1.mlp.fc1.bias")[0] = 1e30f;
  const TemporaryFolder folder;
  tensors.Write(folder / "model.safetensors");
  WriteFile(folder / "config.json", ToJson(c).dump());
  const auto model = SequenceModel<float>::Load(folder.path());
  EXPECT_EQ(model.WhereNotFinite(std::vector<int32_t>{1, 2, 3}), "block 2 of 0 to 2");
}

}  // namespace
}  // namespace qkv::model
