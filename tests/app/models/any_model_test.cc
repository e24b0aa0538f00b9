#include "qkv/app/models/any_model.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "qkv/app/models/abilities.h"
#include "qkv/core/file.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"

namespace qkv::app {
namespace {

std::string Golden(const std::string& name) { return GoldenFolder(name).string(); }

// What a model is, what is expected, and which commands take it.
TEST(AnyModel, RefusesWithWhatToUseInstead) {
  const AnyModel text(ModelEntry{.path = Golden("tasks/gpt2")}), image(ModelEntry{.path = Golden("timm_vit")});
  image.Require("embed", kEmbedImages);
  text.Require("generate", kContinueText);
  const std::string of_text = ErrorMessage([&] { text.Require("embed", kEmbedImages); });
  EXPECT_TRUE(of_text.starts_with("embed: " + Golden("tasks/gpt2") +
                                  " (GPT2LMHeadModel) is a text model, expected an "
                                  "image model; "))
      << of_text;
  EXPECT_NE(of_text.find("qkv generate -m " + Golden("tasks/gpt2") + " continues a text"), std::string::npos);
  EXPECT_EQ(of_text.find("qkv translate"), std::string::npos) << "it has no encoder";
  const std::string of_image = ErrorMessage([&] { image.Require("generate", kContinueText); });
  EXPECT_NE(of_image.find("qkv classify -m " + Golden("timm_vit") + " photo.jpg"), std::string::npos) << of_image;
  const AnyModel digits(ModelEntry{});
  EXPECT_NE(ErrorMessage([&] { digits.Require("generate", kContinueText); }).find("built-in digit classifier"),
            std::string::npos);
}

// The error of any front end for a type that no family has.
TEST(AnyModel, NamesTheSupportedTypes) {
  const TemporaryFolder folder;
  std::filesystem::copy(Golden("tasks/bert"), folder.path(), std::filesystem::copy_options::recursive);
  WriteFile(folder / "config.json", R"({"model_type": "opt", "vocab_size": 2})");
  const std::string unknown = ErrorMessage([&] { AnyModel(ModelEntry{.path = folder.path().string()}); });
  EXPECT_NE(unknown.find("\"opt\" is not supported; supported text models: bert"), std::string::npos) << unknown;
}

TEST(AnyModel, GivesTheFilesOfItsKindAlone) {
  const AnyModel text(ModelEntry{.path = Golden("tasks/bert")}), image(ModelEntry{.path = Golden("timm_vit")});
  EXPECT_EQ(text.kind(), model::ModelKind::kTexts);
  EXPECT_EQ(image.kind(), model::ModelKind::kImages);
  EXPECT_EQ(AnyModel(ModelEntry{.path = Golden("tasks/trocr")}).kind(), model::ModelKind::kCaptions);
  EXPECT_TRUE(text.texts().description.encoder.has_value());
  EXPECT_NE(ErrorMessage([&] { text.images(); }).find("is a text model, expected an image model"), std::string::npos);
  EXPECT_NE(ErrorMessage([&] { image.BuildLanguage(); }).find("is an image model, expected a text model"),
            std::string::npos);
  EXPECT_THROW(image.BuildSequences(), Error);
}

TEST(AnyModel, RefusesSettingsOfImagesForTexts) {
  for (const ModelEntry& entry : {ModelEntry{.path = Golden("tasks/bert"), .labels = "names.txt"},
                                  ModelEntry{.path = Golden("tasks/bert"), .size = InputSize{32, 32}},
                                  ModelEntry{.path = Golden("tasks/bert"), .given = {.heads = 3}},
                                  ModelEntry{.path = Golden("tasks/bert"), .pool = "cls"}}) {
    EXPECT_NE(ErrorMessage([&] { AnyModel{entry}; }).find("do not apply to a text model"), std::string::npos);
  }
  const ModelEntry several{.path = Golden("tasks/bert"), .given = {.crop_pct = 0.9}, .pool = "cls"};
  EXPECT_NE(ErrorMessage([&] { AnyModel{several}; }).find("pool, crop-pct: settings of image models"),
            std::string::npos);
  AnyModel(ModelEntry{.path = Golden("tasks/bert"), .pool = "model"});
}

TEST(AnyModel, BuildsTheSameFilesInAnotherWay) {
  const AnyModel model(ModelEntry{.path = Golden("timm_vit")});
  const AnyModel bytes = model.With({.precision = simd::Precision::kInt8});
  EXPECT_LT(bytes.BuildImages().weight_bytes(), model.BuildImages().weight_bytes());
  EXPECT_EQ(&bytes.images(), &model.images());
}

TEST(Abilities, AreThoseOfTheFiles) {
  const auto has = [](const std::string& name, std::string_view ability) {
    const auto names = AbilitiesOf(AnyModel(ModelEntry{.path = Golden(name)}).facts());
    return std::ranges::find(names, ability) != names.end();
  };
  EXPECT_TRUE(has("detector", "detect"));
  EXPECT_FALSE(has("detector", "segment"));
  EXPECT_TRUE(has("tasks/trocr", "caption"));
  EXPECT_FALSE(has("timm_vit", "caption"));
  EXPECT_TRUE(has("towers/clip", "embed_texts"));
  EXPECT_FALSE(has("tasks/gpt2", "embed_texts"));
  EXPECT_TRUE(has("tasks/gpt2", "inspect_heads"));
}

}  // namespace
}  // namespace qkv::app
