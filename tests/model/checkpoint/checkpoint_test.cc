// What a checkpoint may and may not be: strict tensors, configurations of every kind, bare files.
#include "qkv/model/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "qkv/model/families/describe.h"
#include "qkv/model/model.h"
#include "tests/support/checkpoints.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"

namespace qkv::model {
namespace {

class CheckpointFolder : public testing::Test {
 protected:
  CheckpointFolder() : config_(TinyConfig()), tensors_(DescribeTimm(config_).config) {}

  Checkpoint Open() {
    WriteFile(folder_ / "config.json", config_.dump());
    tensors_.Write(folder_ / "model.safetensors");
    return Checkpoint::Open(folder_.path());
  }
  std::string OpenError() {
    return ErrorMessage([&] { Open(); });
  }

  TemporaryFolder folder_;
  io::Json config_;
  TensorSet tensors_;
};

TEST_F(CheckpointFolder, UsesEveryTensorOnce) {
  const Checkpoint checkpoint = Open();
  EXPECT_EQ(checkpoint.bound.size(), checkpoint.tensors->tensors().size());
  EXPECT_TRUE(checkpoint.description.assumptions.empty());
}

TEST_F(CheckpointFolder, NamesTheMissingTensor) {
  tensors_.Erase("blocks.1.mlp.fc2.bias");
  EXPECT_NE(OpenError().find("1 missing:\n  blocks.1.mlp.fc2.bias [16]"), std::string::npos) << OpenError();
}

TEST_F(CheckpointFolder, NamesTheLeftOverTensor) {
  tensors_.tensors.emplace_back("blocks.0.attn.extra", Tensor<float>({3}));
  EXPECT_NE(OpenError().find("1 left over:\n  blocks.0.attn.extra [3]"), std::string::npos) << OpenError();
}

TEST_F(CheckpointFolder, NamesTheMisshapenTensor) {
  tensors_.at("head.weight") = Tensor<float>({4, 16});
  EXPECT_NE(OpenError().find("head.weight is [4, 16], expected [3, 16]"), std::string::npos) << OpenError();
}

TEST_F(CheckpointFolder, RefusesWeightsThatAreNotFinite) {
  for (const float bad : {std::nanf(""), INFINITY}) {
    tensors_.at("blocks.1.attn.proj.weight")[17] = bad;
    const Checkpoint checkpoint = Open();
    const std::string message = ErrorMessage([&] { Model model(checkpoint); });
    EXPECT_NE(message.find("\"blocks.1.attn.proj.weight\" holds NaN or infinity"), std::string::npos) << message;
  }
}

TEST_F(CheckpointFolder, ModelArgsOutrankThePretrainedCfg) {
  config_.erase("num_classes");
  config_["model_args"]["num_classes"] = 3;
  config_["pretrained_cfg"]["num_classes"] = 1000;
  EXPECT_EQ(Open().description.config.classes, 3);
}

TEST_F(CheckpointFolder, RefusesOtherBlocksByName) {
  const std::pair<const char*, const char*> refused[] = {
      {"vit_base_r50_s16_224", "vit_base_r50_s16_224"},
      {"vit_pwee_patch16_reg1_gap_256", "vit_pwee_patch16_reg1_gap_256"},
      {"swin_base_patch4_window7_224", "swin_base"}};
  config_.erase("model_args");
  for (const auto& [architecture, named] : refused) {
    config_["architecture"] = architecture;
    EXPECT_NE(OpenError().find(named), std::string::npos) << OpenError();
  }
}

TEST_F(CheckpointFolder, WrongTypesNameTheKey) {
  const std::pair<const char*, io::Json> wrong[] = {
      {"embed_dim", "wide"}, {"depth", 1.5},          {"num_heads", -4},         {"num_heads", 0},
      {"patch_size", {4}},   {"img_size", {8, 8, 8}}, {"embed_dim", 1e30},       {"mlp_ratio", "four"},
      {"class_token", 1},    {"act_layer", "sine"},   {"global_pool", "median"}, {"depth", 1000000000}};
  for (const auto& [key, value] : wrong) {
    config_ = TinyConfig();
    config_["model_args"][key] = value;
    EXPECT_FALSE(OpenError().empty()) << key << " = " << value;
  }
}

TEST_F(CheckpointFolder, NegativeNumberOfClassesMeansNone) {
  config_["model_args"]["num_classes"] = -1;
  tensors_.Erase("head.weight");
  tensors_.Erase("head.bias");
  EXPECT_EQ(Open().description.config.classes, 0);
}

TEST_F(CheckpointFolder, AnotherInputSizeThanTheModelsIsSaid) {
  config_["pretrained_cfg"]["input_size"] = {1, 16, 16};
  const Checkpoint checkpoint = Open();
  EXPECT_EQ(checkpoint.description.preprocess.crop_height, 8);
  ASSERT_EQ(checkpoint.description.assumptions.size(), 1u);
  EXPECT_NE(checkpoint.description.assumptions[0].find("[1,16,16]"), std::string::npos);
}

TEST_F(CheckpointFolder, GivenPretrainedCfgIsNotFilledFromTheRegistry) {
  config_["pretrained_cfg"] = {{"input_size", {1, 8, 8}}};
  const image::Preprocess preprocess = Open().description.preprocess;
  EXPECT_EQ(preprocess.resize_height, 9);  // timm's own default: 8 / 0.875
}

TEST_F(CheckpointFolder, RegistryNameAloneIsEnough) {
  const Description description = DescribeTimm(io::Json::parse(R"({"architecture": "vit_small_patch16_224"})"));
  EXPECT_EQ(description.config.block.width, 384);
  EXPECT_EQ(description.config.block.attention.heads, 6);
  EXPECT_EQ(description.config.classes, 1000);
}

TEST_F(CheckpointFolder, BareFileSaysWhatWasAssumed) {
  tensors_.Write(folder_ / "bare.safetensors");
  const Checkpoint checkpoint = Checkpoint::Open(folder_ / "bare.safetensors", {.heads = 4});
  const VitConfig& c = checkpoint.description.config;
  EXPECT_EQ(c.block.width, 16);
  EXPECT_EQ(c.depth, 2);
  EXPECT_EQ(c.block.attention.heads, 4);
  EXPECT_EQ(c.classes, 3);
  EXPECT_EQ(c.image_height, 8);
  EXPECT_GE(checkpoint.description.assumptions.size(), 2u);
}

TEST_F(CheckpointFolder, WhatWasGivenIsNotAssumed) {
  tensors_.Write(folder_ / "bare.safetensors");
  ModelHints given{.heads = 4, .mean = {0.5}, .std = {0.4}, .crop_pct = 0.8};
  AddSetting("act_layer=SiLU", &given);
  const std::vector<std::string> some = Checkpoint::Open(folder_ / "bare.safetensors", given).description.assumptions;
  const auto says = [&](std::string_view part) {
    return std::ranges::any_of(some, [&](const std::string& text) { return text.find(part) != text.npos; });
  };
  EXPECT_FALSE(says("activation") || says("0.9"));
  EXPECT_TRUE(says("eps") && says("bicubic"));
  AddSetting("norm_eps=1e-5", &given);
  AddSetting("interpolation=bilinear", &given);
  const Checkpoint all = Checkpoint::Open(folder_ / "bare.safetensors", given);
  ASSERT_EQ(all.description.assumptions.size(), 1u);  // that there is no config.json
  EXPECT_NE(all.description.assumptions[0].find("read off the tensors"), std::string::npos);
}

TEST_F(CheckpointFolder, FileUsesTheConfigBesideIt) {
  Open();
  EXPECT_EQ(Checkpoint::Open(folder_ / "model.safetensors").description.config.block.attention.heads, 4);
}

TEST_F(CheckpointFolder, MissingModelIsNamed) {
  const std::string message = ErrorMessage([] { Checkpoint::Open("/nonexistent/model"); });
  EXPECT_NE(message.find("/nonexistent/model"), std::string::npos);
}

TEST(DescribeFromTensors, SaysWhatVitPytorchNeeds) {
  const auto tensors = io::SafeTensors::Open(GoldenFolder("vit_pytorch_vit/model.safetensors"));
  const std::string message = ErrorMessage([&] { DescribeFromTensors(tensors); });
  EXPECT_NE(message.find("config.json"), std::string::npos);
  EXPECT_NE(message.find("heads"), std::string::npos);
}

// What lacks is told, with its own shape, and nothing else.
TEST(StoredInPieces, OneMissingOfQueryKeyAndValue) {
  for (const char* golden : {"hf_vit", "hf_vit_new_names", "hf_dinov2"}) {
    for (const char* part : {"query.weight", "key.weight", "value.bias", "q_proj.weight", "k_proj.weight"}) {
      const io::SafeTensors file = io::SafeTensors::Open(GoldenFolder(golden) / "model.safetensors");
      std::vector<io::StoredTensor> kept;
      std::string lacks;
      for (const io::StoredTensor& tensor : file.tensors()) {
        if (lacks.empty() && tensor.name.ends_with(part)) {
          lacks = fmt::format("{} {}", tensor.name, tensor.shape);
        } else {
          kept.push_back(tensor);
        }
      }
      if (lacks.empty()) continue;
      const TemporaryFolder folder;
      io::WriteSafeTensors(folder / "model.safetensors", kept);
      WriteFile(folder / "config.json", ReadFile(GoldenFolder(golden) / "config.json"));
      const std::string error = ErrorMessage([&] { Checkpoint::Open(folder.path()); });
      EXPECT_NE(error.find("1 missing:\n  " + lacks), std::string::npos) << error;
      EXPECT_EQ(error.find("shape:"), std::string::npos) << error;
      EXPECT_EQ(error.find("left over"), std::string::npos) << error;
    }
  }
}

// A hub's config.json often lacks what only its card's code says.
TEST(SettingsThatFit, AreToldWhereTensorsDiffer) {
  const io::SafeTensors none;
  const TemporaryFolder folder;
  std::filesystem::copy(GoldenFolder("known/virchow2") / "pytorch_model.bin", folder / "pytorch_model.bin");
  WriteFile(folder / "config.json", R"({"architecture": "vit_huge_patch14_224", "num_classes": 0, "model_args": {
      "img_size": 42, "embed_dim": 24, "depth": 1, "num_heads": 3, "mlp_ratio": 5.3375}})");
  const std::string error = ErrorMessage([&] { Checkpoint::Open(folder.path()); });
  EXPECT_NE(error.find("--set mlp_layer=SwiGLUPacked --set act_layer=SiLU --set init_values=1e-05 --set reg_tokens=4"),
            std::string::npos)
      << error;
}

}  // namespace
}  // namespace qkv::model
