// What a caller gives where a model's files are silent: architectures, settings, preprocessing.
#include "qkv/model/checkpoint/complete_config.h"

#include <gtest/gtest.h>

#include <cmath>

#include "qkv/core/file.h"
#include "qkv/model/checkpoint/convert.h"
#include "qkv/model/families/describe.h"
#include "qkv/model/families/known_models.h"
#include "qkv/model/layout/translation.h"
#include "qkv/model/model.h"
#include "tests/support/checkpoints.h"
#include "tests/support/errors.h"
#include "tests/support/goldens.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

// ---------------------------------------------------------------------------------------------------------------------
// Published models, at shrunk sizes with random weights, against the code on their cards (tests/golden/known.py)

class Known : public testing::TestWithParam<const char*> {
 protected:
  static fs::path Folder() { return GoldenFolder("known") / GetParam(); }
  static ModelHints Hints(const std::string& architecture) {
    return {.architecture = architecture, .settings = io::ReadJson(Folder() / "settings.json")};
  }
  static fs::path Weights() { return Folder() / "pytorch_model.bin"; }
};
INSTANTIATE_TEST_SUITE_P(Models, Known,
                         testing::Values("uni", "uni2-h", "virchow", "virchow2", "h-optimus-0", "h0-mini", "gigapath",
                                         "kaiko-vitl14", "gpfm", "openmidnight"),
                         [](const auto& name) {
                           std::string text = name.param;
                           std::replace(text.begin(), text.end(), '-', '_');
                           return text;
                         });

TEST_P(Known, GivesTheFeaturesOfItsCard) {
  const std::optional<KnownModel> known = FindKnownModel(GetParam());
  ASSERT_TRUE(known.has_value());
  const auto file = io::SafeTensors::Open(Folder() / "expected.safetensors");
  const auto pixels = io::Convert<float>(*file.Find("pixels")), features = io::Convert<float>(*file.Find("features"));
  const auto exact = io::Convert<double>(*file.Find("features.float64"));
  for (const std::string& name : {known->name, known->hub_id}) {
    const Model model(Checkpoint::Open(Weights(), Hints(name)));
    const VitConfig& c = model.config();
    const int64_t D = c.block.width, width = features.dim(1);
    ASSERT_EQ(width, known->pool == "cls+mean" ? 2 * D : D);
    Tensor<float> tokens({features.dim(0), c.tokens(), D});
    Workspace<float> workspace;
    model.vit().Forward(pixels, workspace, {.tokens = tokens});
    // The original's own rounding sets the scale of what may differ.
    double rounding = 0, greatest = 0;
    for (int64_t i = 0; i < features.size(); ++i) {
      rounding = std::max(rounding, std::abs(features[i] - exact[i]));
      greatest = std::max(greatest, std::abs(exact[i]));
    }
    for (int64_t b = 0; b < features.dim(0); ++b) {
      for (int64_t d = 0; d < width; ++d) {
        double value = 0;
        if (d < D) {
          value = tokens.view()[b].at(0)[d];
        } else {
          for (int64_t n = c.prefix(); n < tokens.dim(1); ++n) value += tokens.view()[b].at(n)[d - D];
          value /= static_cast<double>(tokens.dim(1) - c.prefix());
        }
        EXPECT_NEAR(value, exact[b * width + d], 4 * rounding + 1e-6 * greatest) << name << " " << d;
      }
    }
  }
}

// Its arguments stand in what convert writes, so that nothing need be given again.
TEST_P(Known, ConvertWritesWhatWasGiven) {
  const TemporaryFolder folder;
  const Checkpoint given = Checkpoint::Open(Weights(), Hints(GetParam()));
  Convert(given, folder / "out", {});
  const Checkpoint written = Checkpoint::Open(folder / "out");
  EXPECT_EQ(Differences(given.description.config, written.description.config), std::vector<std::string>());
  EXPECT_EQ(given.description.preprocess.mean, written.description.preprocess.mean);
  EXPECT_EQ(given.description.preprocess.resize_height, written.description.preprocess.resize_height);
  EXPECT_TRUE(written.description.assumptions.empty());
}

TEST(KnownModels, DescribeThemselves) {
  const io::SafeTensors none;
  for (const std::string& name : KnownModelNames()) {
    const std::optional<KnownModel> known = FindKnownModel(name);
    ASSERT_TRUE(known.has_value());
    const Description description = Describe(known->config, known->preprocessor, none);
    EXPECT_EQ(description.config.classes, 0) << name;
    EXPECT_EQ(description.preprocess.mean.size(), 3u) << name;
    EXPECT_EQ(description.assumptions, std::vector<std::string>()) << name;
    EXPECT_TRUE(known->pool == "cls" || known->pool == "cls+mean") << name;
  }
  EXPECT_EQ(FindKnownModel("PAIGE-AI/virchow2")->name, "virchow2");
  EXPECT_EQ(FindKnownModel("hoptimus0")->name, "h-optimus-0");  // as TRIDENT calls it
  EXPECT_EQ(FindKnownModel("uni")->trident, "uni_v1");
  EXPECT_EQ(DescribeLicence(*FindKnownModel("uni")), "CC BY-NC-ND 4.0: no commercial use; weights on request");
  EXPECT_EQ(DescribeLicence(*FindKnownModel("midnight")), "MIT");
  EXPECT_EQ(FindKnownModel("uni2-h")->tile, 256);
  EXPECT_EQ(FindKnownModel("uni2-h")->magnification, 20);
  EXPECT_FALSE(FindKnownModel("vit_base_patch16_224").has_value());
}

TEST(KnownModels, SayWhyTheyAreRefused) {
  const std::vector<std::string> names = KnownModelNames();
  for (const char* name : {"conch", "conch_v15", "MahmoodLab/CONCH", "keep", "musk", "genbio-pathfm", "ctranspath"}) {
    const std::optional<KnownModel> known = FindKnownModel(name);
    ASSERT_TRUE(known.has_value()) << name;
    EXPECT_EQ(std::ranges::count(names, known->name), 0) << name;
    const std::string error = ErrorMessage([&] { Checkpoint::Open(GoldenFolder("timm_vit"), {.architecture = name}); });
    EXPECT_TRUE(error.ends_with(fmt::format("--architecture {}: {}", name, known->refused))) << error;
    EXPECT_NE(DescribeLicence(*known), "");
  }
}

// Hibou's config.json, written before transformers had a type of DINOv2 with registers.
TEST(KnownModels, HibousSettingsAreThoseOfRegisters) {
  const TemporaryFolder folder;
  const std::string golden = "hf_dinov2_registers_model";
  fs::copy(GoldenFolder(golden) / "model.safetensors", folder / "model.safetensors");
  io::Json config = io::ReadJson(GoldenFolder(golden) / "config.json");
  config["model_type"] = "dinov2";
  config["architectures"] = {"Dinov2ModelWithRegisters"};
  config["auto_map"] = {{"AutoConfig", "configuration_dinov2.Dinov2Config"},
                        {"AutoModel", "modeling_dinov2.Dinov2ModelWithRegisters"}};
  config["_name_or_path"] = "/home/ubuntu/hibou-local-weight";
  WriteFile(folder / "config.json", config.dump());
  const Checkpoint original = Checkpoint::Open(GoldenFolder(golden)),
                   opened = Checkpoint::Open(folder.path(), {.architecture = "hibou-b"});
  EXPECT_EQ(Differences(original.description.config, opened.description.config), std::vector<std::string>());
  EXPECT_EQ(opened.description.preprocess.mean, (std::vector<float>{0.7068f, 0.5755f, 0.722f}));
}

// ---------------------------------------------------------------------------------------------------------------------
// Settings

class Hints : public testing::Test {
 protected:
  // A golden model, with or without its config.json.
  void Copy(const std::string& golden, bool bare) {
    fs::remove_all(model_);
    fs::create_directories(model_);
    for (const char* name : {"model.safetensors", "config.json", "preprocessor_config.json"}) {
      if (fs::exists(GoldenFolder(golden) / name)) fs::copy(GoldenFolder(golden) / name, model_ / name);
    }
    if (bare) {
      fs::remove(model_ / "config.json");
      fs::remove(model_ / "preprocessor_config.json");
    }
  }
  std::string OpenError(const ModelHints& given) const {
    return ErrorMessage([&] { Checkpoint::Open(model_, given); });
  }

  const TemporaryFolder folder_;
  const fs::path model_ = folder_ / "model";
};

TEST(AddSetting, ReadsJsonOrText) {
  ModelHints hints;
  for (const char* text : {"a=1", "b=SiLU", "c=[2, 3]", "d=true", "e=", "f=x=y", "g=0.5"}) AddSetting(text, &hints);
  EXPECT_EQ(hints.settings,
            (io::Json{{"a", 1}, {"b", "SiLU"}, {"c", {2, 3}}, {"d", true}, {"e", ""}, {"f", "x=y"}, {"g", 0.5}}));
  for (const char* text : {"", "=1", "word", "a=2"}) EXPECT_THROW(AddSetting(text, &hints), Error) << text;
}

TEST_F(Hints, ArchitectureOfTimmTellsAllThatTensorsDoNot) {
  Copy("timm_vit", /*bare=*/true);
  const Checkpoint original = Checkpoint::Open(GoldenFolder("timm_vit"));
  const VitConfig& c = original.description.config;
  const ModelHints given = {.architecture = "vit_base_patch16_224.augreg_in21k",
                            .settings = {{"embed_dim", c.block.width},
                                         {"depth", c.depth},
                                         {"num_heads", c.block.attention.heads},
                                         {"patch_size", {c.patch_height, c.patch_width}},
                                         {"img_size", {c.image_height, c.image_width}}}};
  const Checkpoint opened = Checkpoint::Open(model_, given);
  EXPECT_EQ(Differences(c, opened.description.config), std::vector<std::string>());
  EXPECT_EQ(opened.description.unknown_preprocess, "");
  EXPECT_EQ(opened.description.preprocess.mean, std::vector<float>(3, 0.5f));
}

TEST_F(Hints, ArchitectureMustBeKnownAndAgree) {
  Copy("timm_vit", /*bare=*/false);
  EXPECT_NE(OpenError({.architecture = "vit_nonsense"}).find("uni2-h"), std::string::npos);
  EXPECT_NE(OpenError({.architecture = "virchow2"}).find("contradicts"), std::string::npos);
  EXPECT_NE(OpenError({.architecture = "phikon"}).find("contradicts"), std::string::npos);
  Copy("hf_vit", /*bare=*/false);
  EXPECT_NE(OpenError({.architecture = "uni"}).find("contradicts"), std::string::npos);
}

TEST_F(Hints, UnknownSettingsAreNamedWithTheKnownOnes) {
  for (const char* golden : {"timm_vit", "hf_vit", "vit_pytorch_vit"}) {
    Copy(golden, /*bare=*/false);
    ModelHints given;
    AddSetting("mlp_lyer=Mlp", &given);
    EXPECT_NE(OpenError(given).find("--set mlp_lyer"), std::string::npos) << OpenError(given);
    EXPECT_NE(OpenError(given).find("patch_size"), std::string::npos) << OpenError(given);
  }
  // A family without settings of its own.
  ModelHints given;
  AddSetting("hidden_act=gelu", &given);
  const std::string error = ErrorMessage([&] { Checkpoint::Open(GoldenFolder("hf_clip"), given); });
  EXPECT_NE(error.find("expected one of image_processor_type, "), std::string::npos) << error;
}

TEST_F(Hints, SettingsChangeTheModel) {
  Copy("timm_vit", /*bare=*/false);
  ModelHints given;
  AddSetting("act_layer=SiLU", &given);
  EXPECT_EQ(Checkpoint::Open(model_, given).description.config.block.mlp.activation, simd::Activation::kSilu);
  Copy("hf_vit", /*bare=*/false);
  given.settings = {{"hidden_act", "relu"}};
  EXPECT_EQ(Checkpoint::Open(model_, given).description.config.block.mlp.activation, simd::Activation::kRelu);
}

TEST_F(Hints, WeightsAloneTakeNoImagesUntilTheirNormalisationIsGiven) {
  const image::Image photo{Tensor<uint8_t>({40, 40, 3})};
  for (const auto& [golden, channels] : {std::pair("timm_vit", 3), {"hf_vit", 3}, {"hf_dinov2", 3}}) {
    const int64_t heads = Checkpoint::Open(GoldenFolder(golden)).description.config.block.attention.heads;
    Copy(golden, /*bare=*/true);
    const Checkpoint bare = Checkpoint::Open(model_, {.heads = heads});
    EXPECT_NE(bare.description.unknown_preprocess, "");
    const Model model(bare);
    EXPECT_NE(ErrorMessage([&] { model.Pixels(photo); }).find("--mean"), std::string::npos) << golden;
    EXPECT_THROW(Convert(bare, folder_ / "out", {}), Error);
    // Pixels that the caller prepares need nothing.
    const VitConfig& c = model.config();
    EXPECT_GT(model.Logits(Tensor<float>({1, c.channels, c.image_height, c.image_width})).size(), 0);
    EXPECT_NE(Checkpoint::Open(model_, {.heads = heads, .mean = {0.5}}).description.unknown_preprocess, "");
    const ModelHints both = {.heads = heads, .mean = {0.1, 0.2, 0.3}, .std = {0.25}};
    const Checkpoint settled = Checkpoint::Open(model_, both);
    EXPECT_EQ(settled.description.unknown_preprocess, "");
    EXPECT_EQ(settled.description.preprocess.mean, (std::vector<float>{0.1f, 0.2f, 0.3f}));
    EXPECT_EQ(settled.description.preprocess.std, std::vector<float>(3, 0.25f));
    EXPECT_GT(Model(settled).Pixels(photo).size(), 0);
    const std::string folder = std::string("out_") + golden;
    Convert(settled, folder_ / folder, {});
    const Checkpoint written = Checkpoint::Open(folder_ / folder);
    EXPECT_EQ(written.description.preprocess.mean, settled.description.preprocess.mean);
    EXPECT_EQ(Differences(settled.description.config, written.description.config), std::vector<std::string>());
  }
}

TEST_F(Hints, MeanAndStdHaveOneValuePerChannelAndReplaceThoseOfTheFiles) {
  for (const char* golden : {"timm_vit", "hf_vit", "vit_pytorch_vit"}) {
    Copy(golden, /*bare=*/false);
    EXPECT_NE(OpenError({.mean = {0.1, 0.2}}).find("--mean: 2 values"), std::string::npos)
        << OpenError({.mean = {1, 2}});
    const Checkpoint opened = Checkpoint::Open(model_, {.mean = {0.1}, .std = {0.2, 0.3, 0.4}});
    EXPECT_EQ(opened.description.preprocess.mean, std::vector<float>(3, 0.1f)) << golden;
    EXPECT_EQ(opened.description.preprocess.std, (std::vector<float>{0.2f, 0.3f, 0.4f})) << golden;
  }
}

// transformers 5 writes the image processor of a model of images and texts inside another file.
TEST_F(Hints, TheImageProcessorMayLieInProcessorConfig) {
  Copy("hf_clip", /*bare=*/false);
  const image::Preprocess wanted = Checkpoint::Open(model_).description.preprocess;
  io::Json processor = io::ReadJson(model_ / "preprocessor_config.json");
  processor["image_mean"] = {0.25, 0.25, 0.25};
  fs::remove(model_ / "preprocessor_config.json");
  WriteFile(model_ / "processor_config.json",
            io::Json({{"image_processor", processor}, {"processor_class", "CLIPProcessor"}}).dump());
  const Checkpoint opened = Checkpoint::Open(model_);
  EXPECT_EQ(opened.description.preprocess.mean, std::vector<float>(3, 0.25f));
  EXPECT_EQ(opened.description.preprocess.std, wanted.std);
  EXPECT_TRUE(opened.description.assumptions.empty());
  Convert(opened, folder_ / "out", {});
  EXPECT_EQ(Checkpoint::Open(folder_ / "out").description.preprocess.mean, std::vector<float>(3, 0.25f));
}

TEST_F(Hints, CropPctIsTheResizedSizeOverTheCrop) {
  for (const char* golden : {"timm_vit", "hf_vit", "hf_dinov2"}) {
    Copy(golden, /*bare=*/false);
    const image::Preprocess before = Checkpoint::Open(model_).description.preprocess;
    const image::Preprocess after = Checkpoint::Open(model_, {.crop_pct = 0.5}).description.preprocess;
    const int64_t side = before.crop == image::Preprocess::Crop::kNone ? before.resize_height : before.crop_height;
    EXPECT_EQ(after.crop_height, side) << golden;
    EXPECT_EQ(after.resize_height, 2 * side) << golden;
    EXPECT_EQ(after.mean, before.mean) << golden;
  }
}

TEST_F(Hints, VitPytorchsArgumentsMayBeGiven) {
  Copy("vit_pytorch_vit", /*bare=*/true);
  EXPECT_NE(OpenError({}).find("--set image_size"), std::string::npos) << OpenError({});
  const io::Json config = io::ReadJson(GoldenFolder("vit_pytorch_vit") / "config.json");
  ModelHints given = {.heads = config["heads"], .mean = {0.5}, .std = {0.5}};
  for (const char* key : {"image_size", "patch_size", "dim_head"}) given.settings[key] = config[key];
  const Checkpoint opened = Checkpoint::Open(model_, given);
  const Checkpoint original = Checkpoint::Open(GoldenFolder("vit_pytorch_vit"));
  EXPECT_EQ(Differences(original.description.config, opened.description.config), std::vector<std::string>());
  Convert(opened, folder_ / "out", {});
  EXPECT_EQ(Differences(Checkpoint::Open(folder_ / "out").description.config, opened.description.config),
            std::vector<std::string>());
}

// Of two CLIP models of one shape, OpenAI's has quick_gelu.
TEST_F(Hints, TheActivationOfClipIsNotGuessed) {
  Copy("timm_clip", /*bare=*/true);
  const int64_t heads = Checkpoint::Open(GoldenFolder("timm_clip")).description.config.block.attention.heads;
  EXPECT_NE(OpenError({.heads = heads}).find("act_layer=quick_gelu"), std::string::npos);
  ModelHints given = {.heads = heads};
  AddSetting("act_layer=quick_gelu", &given);
  EXPECT_EQ(Checkpoint::Open(model_, given).description.config.block.mlp.activation, simd::Activation::kQuickGelu);
}

}  // namespace
}  // namespace qkv::model
