#include "qkv/app/models/info.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "qkv/app/open/open.h"
#include "qkv/model/layout/cost.h"
#include "tests/support/goldens.h"

namespace qkv::app {
namespace {

TEST(Info, HasOneJsonForm) {
  const io::Json json = InfoJson(OpenCheckpoint({}));
  EXPECT_EQ(json["source"], "built-in digits");
  EXPECT_EQ(json["tensors_used"], json["tensors"]);
  EXPECT_EQ(json["image_size"], io::Json({28, 28}));
  EXPECT_EQ(json["labels"].size(), 10u);
  EXPECT_GT(json["parameters"].get<int64_t>(), 0);
  EXPECT_TRUE(json["preprocessing"].is_string());
}

// What is computed: images become 224x224 whatever size the stored positions are for.
TEST(Info, HasTheSizeThatImagesBecome) {
  for (const char* name : {"timm_vit", "hf_dinov2"}) {
    model::Checkpoint checkpoint = OpenCheckpoint({.path = GoldenFolder(name).string()});
    checkpoint.description.preprocess.crop = image::Preprocess::Crop::kTorchvision;
    checkpoint.description.preprocess.crop_height = 12 * checkpoint.description.config.patch_height;
    checkpoint.description.preprocess.crop_width = 10 * checkpoint.description.config.patch_width;
    const model::VitConfig& stored = checkpoint.description.config;
    const io::Json json = InfoJson(checkpoint);
    EXPECT_EQ(json["image_size"], io::Json({12 * stored.patch_height, 10 * stored.patch_width}));
    EXPECT_EQ(json["stored_image_size"], io::Json({stored.image_height, stored.image_width}));
    EXPECT_EQ(json["tokens"], stored.prefix() + 120);
    EXPECT_EQ(json["parameters"], model::Parameters(stored));
    EXPECT_GT(json["flops"].get<double>(), model::Flops(stored));
    const auto lines = InfoLines(checkpoint);
    const auto input = std::ranges::find(lines, "input", &std::pair<std::string, std::string>::first);
    EXPECT_NE(input->second.find(fmt::format("stored: {} x {}", stored.image_height, stored.image_width)),
              std::string::npos);
  }
}

TEST(Info, ListsAssumptions) {
  const model::Checkpoint checkpoint =
      OpenCheckpoint({.path = GoldenFolder("vit_pytorch_simple/model.safetensors").string()});
  ASSERT_FALSE(checkpoint.description.assumptions.empty());
  const auto lines = InfoLines(checkpoint);
  EXPECT_EQ(std::ranges::count(lines, "assumed", &std::pair<std::string, std::string>::first),
            std::ssize(checkpoint.description.assumptions));
  EXPECT_EQ(InfoJson(checkpoint)["assumptions"], io::Json(checkpoint.description.assumptions));
}

}  // namespace
}  // namespace qkv::app
