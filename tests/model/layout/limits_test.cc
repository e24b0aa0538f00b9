// Estimates of memory against what is really taken, and what a small file may not ask for.
#include "qkv/model/layout/limits.h"

#include <gtest/gtest.h>

#include "qkv/core/memory.h"
#include "qkv/model/families/describe.h"
#include "qkv/model/layout/tensor_table.h"
#include "qkv/model/model.h"
#include "qkv/model/sequence/decoder.h"
#include "qkv/model/sequence/sequence_model.h"
#include "tests/support/checkpoints.h"
#include "tests/support/errors.h"
#include "tests/support/goldens.h"
#include "tests/support/sequences.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

// A limit for as long as a test needs it.
struct Limited {
  int64_t before = MemoryLimit();
  explicit Limited(int64_t bytes) { SetMemoryLimit(bytes); }
  ~Limited() { SetMemoryLimit(before); }
};

class PassBytes : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Golden, PassBytes, testing::ValuesIn(GoldenNames()),
                         [](const auto& golden) { return golden.param; });

// What each thread has for itself: tiles of attention, lines of alignment.
constexpr double kScratch = 1 << 20;

TEST_P(PassBytes, AreNoLessThanWhatAPassTakes) {
  const Model model = Model::Load(GoldenFolder(GetParam()));
  const VitConfig& c = model.config();
  for (const int64_t B : {1, 64}) {
    const Tensor<float> pixels({B, c.channels, c.image_height, c.image_width});
    Tensor<float> logits({B, c.outputs()});
    Workspace<float> workspace;
    model.Forward(pixels, workspace, {.logits = logits});
    const auto taken = static_cast<double>(workspace.arena.peak_bytes());
    const double pixel_bytes = sizeof(float) * static_cast<double>(pixels.size());
    const double estimate = model.vit().PassBytes(B, c.image_height, c.image_width) - pixel_bytes;
    EXPECT_GE(estimate + kScratch, taken) << B;
    EXPECT_LE(estimate, 4 * taken + kScratch) << B;
  }
}

TEST(Limits, APassBeyondTheLimitIsRefused) {
  const Model model = Model::Load(GoldenFolder("timm_vit"));
  const VitConfig& c = model.config();
  const Tensor<float> pixels({64, c.channels, c.image_height, c.image_width});
  const auto bytes = static_cast<int64_t>(model.vit().PassBytes(64, c.image_height, c.image_width));
  const Limited limited(bytes / 2);
  const std::string message = ErrorMessage([&] { model.Logits(pixels); });
  EXPECT_NE(message.find("64 images of 10 tokens would take about"), std::string::npos) << message;
  EXPECT_NE(message.find("--max-memory"), std::string::npos) << message;
  EXPECT_EQ(ErrorMessage([&] { model.Logits(pixels.view().slice(0, 0, 8)); }), "");
}

TEST(Limits, LayersBeyondTheLimitAreNotBuilt) {
  const Limited limited(1000);
  EXPECT_NE(ErrorMessage([] { Model::Load(GoldenFolder("timm_vit")); }).find("the model's layers"), std::string::npos);
}

// A few KB whose configuration asks for a million tokens, which nothing in the file stands for.
TEST(Limits, AMillionTokensOfAFewKilobytesAreRefused) {
  const TemporaryFolder folder;
  io::Json config = TinyConfig();
  config["model_args"]["pos_embed"] = "none";
  config["model_args"]["img_size"] = 4096;
  config["pretrained_cfg"]["input_size"] = {1, 4096, 4096};
  TensorSet(DescribeTimm(config).config).Write(folder / "model.safetensors");
  WriteFile(folder / "config.json", config.dump());
  Model model = Model::Load(folder.path());
  EXPECT_EQ(model.config().tokens(), 1024 * 1024 + 1);
  const image::Image image{Tensor<uint8_t>({8, 8, 1})};
  const std::string message = ErrorMessage([&] { model.Classify(image); });
  EXPECT_NE(message.find("of weights may ask for"), std::string::npos) << message;
  EXPECT_NE(message.find("--size"), std::string::npos) << message;
  // Who asks for a size has it.
  model.SetInputSize(64, 64);
  EXPECT_EQ(ErrorMessage([&] { model.Classify(image); }), "");
}

TEST(Limits, PublishedModelsAreFarFromThem) {
  for (const char* name :
       {"vit_tiny_patch16_384", "vit_base_patch8_224", "vit_giant_patch14_224", "vit_large_patch14_reg4_dinov2"}) {
    const VitConfig c = DescribeTimm({{"architecture", name}}).config;
    RequireProportion(20 * Cost(c, c.image_height, c.image_width), 2.0 * static_cast<double>(Parameters(c)), name, "");
  }
}

TEST(Limits, ASequenceModelsTablesAndCachesAreRefused) {
  SequenceConfig c;
  c.vocabulary = 8, c.outputs = 8, c.length = 1 << 20, c.block.width = 8, c.depth = 2, c.block.attention.heads = 2,
  c.block.attention.head_width = 4, c.block.mlp.width = 32, c.causal = true;
  c.positions = SequencePositions::kSinusoidal;
  const TemporaryFolder folder;
  TensorSet(TensorTable(c)).Write(folder / "model.safetensors");
  WriteFile(folder / "config.json", ToJson(c).dump());
  const auto model = SequenceModel<float>::Load(folder.path());
  EXPECT_THROW(RequireProportion(Cost(c), 1e4, "", ""), Error);
  const Limited limited(1 << 24);
  EXPECT_NE(ErrorMessage([&] { SequenceModel<float>::Load(folder.path()); }).find("layers"), std::string::npos);
  EXPECT_NE(ErrorMessage([&] { Decoder<float>{model}; }).find("decoder"), std::string::npos);
  EXPECT_NE(ErrorMessage([&] {
              model.Logits(Tensor<int32_t>({1, 1 << 20}));
            }).find("1048576 tokens"),
            std::string::npos);
}

TEST(Limits, NumberOfClassesIsBounded) {
  EXPECT_NE(
      ErrorMessage([] {
        DescribeTimm(
            {{"architecture", "vit_tiny_patch16_224"}, {"num_classes", 1 << 24}, {"label_names", io::Json::array()}});
      }).find("number of classes"),
      std::string::npos);
}

}  // namespace
}  // namespace qkv::model
