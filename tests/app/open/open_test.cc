#include "qkv/app/open/open.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "qkv/app/open/kinds.h"
#include "qkv/core/file.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"

namespace qkv::app {
namespace {

std::string Golden(const std::string& name) { return GoldenFolder(name).string(); }

TEST(Open, GivesTheBuiltInModelWithoutAPath) {
  EXPECT_EQ(OpenCheckpoint({}).source, "built-in digits");
  EXPECT_EQ(LoadModel({}).config().classes, 10);
  EXPECT_THROW(OpenCheckpoint({.given = {.heads = 4}}), Error);
}

// What a model is, what is expected, and which commands take it; a type that no family has, with those of its kind.
TEST(Kinds, AreRefusedWithWhatToUseInstead) {
  RequireKind("embed", Golden("timm_vit"), {ModelKind::kTexts, ModelKind::kImages});
  const auto refused = [](const std::string& path, ModelKind expected) {
    return ErrorMessage([&] { RequireKind("generate", path, {expected}); });
  };
  const std::string vit = Golden("timm_vit"), text = refused(Golden("tasks/gpt2"), ModelKind::kImages);
  EXPECT_TRUE(text.starts_with("generate: ")) << text;
  EXPECT_NE(text.find("is a text model, expected an image model; qkv embed --text"), std::string::npos) << text;
  EXPECT_NE(refused(vit, ModelKind::kTexts).find("qkv classify -m " + vit + " photo.jpg"), std::string::npos);
  EXPECT_NE(refused("", ModelKind::kTexts).find("built-in digit classifier"), std::string::npos);

  const TemporaryFolder folder;
  WriteFile(folder / "config.json", R"({"model_type": "opt", "vocab_size": 2})");
  const std::string unknown = refused(folder.path().string(), ModelKind::kTexts);
  EXPECT_NE(unknown.find("\"opt\" is not supported; supported text models: bert"), std::string::npos) << unknown;
}

TEST(Open, TakesSizeAndPrecision) {
  ModelOptions options{.path = Golden("timm_vit"), .precision = simd::Precision::kBfloat16};
  const model::Checkpoint checkpoint = OpenCheckpoint(options);
  const model::Model own = LoadModel(options);
  options.size = InputSize{2 * own.config().image_height, own.config().image_width};
  const std::optional<Shape> shape = LoadModel(options).FixedPixelsShape();
  ASSERT_TRUE(shape.has_value());
  EXPECT_EQ((*shape)[1], 2 * own.config().image_height);
  EXPECT_EQ(WithImageSize(own.config(), options.size).image_height, 2 * own.config().image_height);
  EXPECT_EQ(WithImageSize(own.config(), {}).image_height, own.config().image_height);
}

TEST(Open, KeepsTheBuiltModelByThePolicy) {
  const TemporaryFolder folder;
  const std::string old = std::getenv("XDG_CACHE_HOME") ? std::getenv("XDG_CACHE_HOME") : "";
  ::unsetenv("QKV_CACHE");
  ::setenv("XDG_CACHE_HOME", folder.path().c_str(), 1);
  std::string notes;
  ModelOptions options{.path = Golden("timm_vit"), .note = [&](const std::string& text) { notes += text + "\n"; }};
  LoadModel(options);
  EXPECT_FALSE(std::filesystem::exists(folder / "qkv"));
  options.cache = CachePolicy::kUse;
  LoadModel(options);
  EXPECT_TRUE(std::filesystem::exists(folder / "qkv"));
  options.cache = CachePolicy::kVerify;
  LoadModel(options);
  ::unsetenv("XDG_CACHE_HOME");
  const std::string home = std::getenv("HOME") ? std::getenv("HOME") : "";
  ::unsetenv("HOME");
  LoadModel(options);
  EXPECT_NE(notes.find("no cache: none of QKV_CACHE"), std::string::npos) << notes;
  if (!home.empty()) ::setenv("HOME", home.c_str(), 1);
  if (!old.empty()) ::setenv("XDG_CACHE_HOME", old.c_str(), 1);
}

}  // namespace
}  // namespace qkv::app
