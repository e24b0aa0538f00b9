// BEiT and data2vec-vision: timm's class Beit by its names alone, what both libraries' configurations say, weights
// without a configuration, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <string_view>

#include "qkv/io/json.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/config/description.h"
#include "qkv/model/families/describe.h"
#include "qkv/model/layout/tensor_table.h"
#include "qkv/model/layout/translation.h"
#include "qkv/model/model.h"
#include "tests/support/difference.h"
#include "tests/support/errors.h"
#include "tests/support/goldens.h"
#include "tests/support/sampler.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

VitConfig TimmConfig(std::string_view architecture, const io::Json& args = io::Json::object()) {
  return DescribeTimm({{"architecture", architecture}, {"model_args", args}}).config;
}

Description HfDescription(const io::Json& settings) {
  io::Json config = {{"model_type", "beit"}, {"architectures", {"BeitModel"}}};
  config.update(settings);
  return Describe(config, std::nullopt, io::SafeTensors());
}

struct Size {
  const char* architecture;
  int64_t parameters;
};
// sum(p.numel() for p in timm.create_model(name).parameters()) of timm 1.0.31
constexpr Size kSizes[] = {{"beit_base_patch16_224", 86530984},    {"beit_base_patch16_384", 86744104},
                           {"beit_large_patch16_224", 304430568},  {"beit_large_patch16_384", 304998888},
                           {"beit_large_patch16_512", 305674728},  {"beitv2_base_patch16_224", 86530984},
                           {"beitv2_large_patch16_224", 304430568}};

TEST(TimmBeit, HasTheParametersOfTimm) {
  for (const Size& size : kSizes) {
    EXPECT_EQ(Parameters(TimmConfig(size.architecture)), size.parameters) << size.architecture;
  }
}

TEST(TimmBeit, ReadsItsArguments) {
  const VitConfig c = TimmConfig("beit_base_patch16_384.in22k_ft_in22k_in1k");
  EXPECT_EQ(c.block.attention.bias_rows, 47 * 47 + 3);
  EXPECT_EQ(c.bias_interpolation, BiasInterpolation::kGeometric);
  EXPECT_FALSE(c.block.attention.key_bias);
  EXPECT_TRUE(c.block.layer_scale);
  EXPECT_EQ(c.positions, Positions::kNone);
  EXPECT_EQ(c.pool, Pool::kMean);
  EXPECT_TRUE(c.fc_norm);
  const Description v2 = DescribeTimm({{"architecture", "beitv2_large_patch16_224"}});
  EXPECT_EQ(v2.preprocess_json["mean"][0], 0.485);
  EXPECT_EQ(v2.preprocess_json["crop_pct"], 0.95);
  // An architecture of no known name, by arguments that only Beit has.
  const VitConfig shared = TimmConfig("mine", {{"embed_dim", 12}, {"num_heads", 3}, {"use_shared_rel_pos_bias", true}});
  EXPECT_TRUE(shared.shared_biases);
  EXPECT_EQ(shared.positions, Positions::kLearned);
  EXPECT_EQ(shared.relative_bias_tables(), 1);
}

TEST(TimmBeit, RefusesWhatItLacks) {
  const auto message = [](const io::Json& args) {
    return ErrorMessage([&] { TimmConfig("beit_base_patch16_224", args); });
  };
  EXPECT_NE(message({{"global_pool", "max"}}).find("not one of avg, token"), std::string::npos);
  EXPECT_NE(message({{"norm_layer", "RmsNorm"}}).find("norm_layer"), std::string::npos);
  EXPECT_NE(message({{"patch_size", 0}}).find("the patch height"), std::string::npos);
  EXPECT_NE(message({{"img_size", 1 << 30}}).find("the image height"), std::string::npos);
  EXPECT_NE(message({{"num_heads", 7}}).find("num_heads"), std::string::npos);
}

TEST(HfBeit, ReadsPoolingAndBiases) {
  const Description mean = HfDescription({{"use_relative_position_bias", true}});
  EXPECT_EQ(mean.config.block.attention.bias_rows, 27 * 27 + 3);
  EXPECT_EQ(mean.config.pool, Pool::kMean);
  EXPECT_TRUE(mean.config.fc_norm && !mean.config.final_norm);
  EXPECT_EQ(mean.config.positions, Positions::kNone);
  EXPECT_EQ(mean.config.block.norm.eps, 1e-12);
  EXPECT_EQ(mean.preprocess.mean, (std::vector<float>{0.5f, 0.5f, 0.5f}));
  EXPECT_EQ(mean.preprocess.filter, image::Filter::kBicubic);
  const Description token = HfDescription({{"use_mean_pooling", false}, {"layer_scale_init_value", 0}});
  EXPECT_EQ(token.config.pool, Pool::kToken);
  EXPECT_TRUE(token.config.final_norm && !token.config.fc_norm);
  EXPECT_FALSE(token.config.block.layer_scale);
}

TEST(HfBeit, RefusesOtherHeads) {
  const auto message = [](const char* architecture, const io::Json& more = io::Json::object()) {
    io::Json config = more;
    config["architectures"] = {architecture};
    return ErrorMessage([&] { HfDescription(config); });
  };
  EXPECT_NE(message("BeitForSemanticSegmentation").find("no head for segmentation"), std::string::npos);
  EXPECT_NE(message("BeitBackbone").find("no head for segmentation"), std::string::npos);
  EXPECT_NE(message("BeitForTea").find("not supported"), std::string::npos);
  EXPECT_NE(message("BeitForMaskedImageModeling", {{"use_mean_pooling", false}}).find("two LayerNorms"),
            std::string::npos);
  const Description pretraining = HfDescription({{"architectures", {"BeitForMaskedImageModeling"}}});
  EXPECT_TRUE(pretraining.config.final_norm);
  EXPECT_NE(pretraining.assumptions[0].find("lm_head"), std::string::npos);
}

// ---------------------------------------------------------------------------------------------------------------------
// Files

Tensor<float> Logits(const Checkpoint& checkpoint, const Tensor<float>& pixels) {
  const Vit<float> vit(checkpoint.description.config, checkpoint.bound);
  Tensor<float> logits({pixels.dim(0), vit.config().outputs()});
  Workspace<float> workspace;
  vit.Forward(pixels, workspace, {.logits = logits});
  return logits;
}

Tensor<float> Pixels(const Checkpoint& checkpoint) {
  const VitConfig& c = checkpoint.description.config;
  return Sampler(3).Normal<float>({2, c.channels, c.image_height, c.image_width});
}

class BareBeit : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Goldens, BareBeit,
                         testing::Values("hf_beit", "hf_beit_shared", "hf_beit_both", "hf_beit_pretraining",
                                         "hf_data2vec", "hf_data2vec_model_resized", "timm_beitv2", "timm_beit_shared",
                                         "timm_beit_both"));

// The tables tell heads and grid, so that weights alone suffice.
TEST_P(BareBeit, WeightsTellTheConfiguration) {
  const TemporaryFolder folder;
  const Checkpoint whole = Checkpoint::Open(GoldenFolder(GetParam()));
  fs::copy(GoldenFolder(GetParam()) / "model.safetensors", folder / "model.safetensors");
  ModelHints given;
  if (whole.description.config.family == Family::kTimm) given.mean = given.std = {0.5, 0.5, 0.5};
  const Checkpoint bare = Checkpoint::Open(folder / "model.safetensors", given);
  EXPECT_EQ(Differences(whole.description.config, bare.description.config), std::vector<std::string>());
  EXPECT_EQ(MaxDifference(Logits(bare, Pixels(whole)), Logits(whole, Pixels(whole))), 0);
}

// Older versions of both libraries stored the indices into the tables, as integers.
TEST(BeitFiles, IndicesIntoTheTablesAreNotRead) {
  for (const auto& [golden, name] :
       {std::pair{"hf_beit", "beit.encoder.layer.0.attention.attention.relative_position_bias.relative_position_index"},
        {"timm_beit", "blocks.1.attn.relative_position_index"}}) {
    const TemporaryFolder folder;
    fs::copy(GoldenFolder(golden) / "config.json", folder / "config.json");
    const io::SafeTensors file = io::SafeTensors::Open(GoldenFolder(golden));
    std::vector<io::StoredTensor> tensors = file.tensors();
    const Tensor<int64_t> indices({10, 10});
    tensors.push_back(io::Stored<int64_t>(name, indices));
    io::WriteSafeTensors(folder / "model.safetensors", tensors);
    const Checkpoint with = Checkpoint::Open(folder.path()), without = Checkpoint::Open(GoldenFolder(golden));
    EXPECT_EQ(MaxDifference(Logits(with, Pixels(with)), Logits(without, Pixels(with))), 0) << golden;
  }
}

TEST(BeitFiles, ATableOfAnotherGridIsMisshaped) {
  const TemporaryFolder folder;
  fs::copy(GoldenFolder("hf_beit") / "model.safetensors", folder / "model.safetensors");
  io::Json config = io::ReadJson(GoldenFolder("hf_beit") / "config.json");
  config["image_size"] = 32;
  WriteFile(folder / "config.json", config.dump());
  const std::string message = ErrorMessage([&] { Checkpoint::Open(folder.path()); });
  EXPECT_NE(message.find("relative_position_bias_table is [28, 3], expected [52, 3]"), std::string::npos) << message;
}

// The weights of one block, from its tokens, are those of a whole pass, at the trained size and at another.
TEST(BeitFiles, WeightsOfABlockHaveTheBiases) {
  for (const char* golden : {"hf_beit", "hf_beit_shared", "timm_beit"}) {
    const Checkpoint checkpoint = Checkpoint::Open(GoldenFolder(golden));
    const Vit<float> vit(checkpoint.description.config, checkpoint.bound);
    const VitConfig& c = vit.config();
    for (const auto& [height, width] : {std::pair{c.image_height, c.image_width}, {int64_t{16}, int64_t{32}}}) {
      const int64_t N = vit.TokensFor(height, width), H = c.block.attention.heads, block = c.depth - 1;
      const Tensor<float> pixels = Sampler(8).Normal<float>({1, c.channels, height, width});
      Tensor<float> tokens({1, N, c.block.width}), whole({1, H, N, N}), part({1, H, 2, N});
      Workspace<float> workspace;
      Outputs<float> outputs;
      outputs.hidden.push_back({block, tokens});
      outputs.attention.push_back({block, {0, N, whole}});
      vit.Forward(pixels, workspace, outputs);
      const nn::WeightsRequest<float> request{1, 3, part};
      vit.BlockWeights(tokens, block, workspace, {&request, 1});
      for (int64_t h = 0; h < H; ++h) {
        for (int64_t i = 0; i < 2 * N; ++i) {
          EXPECT_NEAR(part.view().at(0, h)[i], whole.view().at(0, h, 1)[i], 1e-5) << golden;
        }
      }
    }
  }
}

}  // namespace
}  // namespace qkv::model
