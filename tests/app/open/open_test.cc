#include "qkv/app/open/open.h"

#include <gtest/gtest.h>

#include <cstdlib>

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

TEST(Open, TakesSizeAndPrecision) {
  ModelEntry options{.path = Golden("timm_vit"), .build = {.precision = simd::Precision::kBfloat16}};
  const model::Checkpoint checkpoint = OpenCheckpoint(options);
  const model::Model own = LoadModel(options);
  options.size = InputSize{2 * own.config().image_height, own.config().image_width};
  const std::optional<Shape> shape = LoadModel(options).FixedPixelsShape();
  ASSERT_TRUE(shape.has_value());
  EXPECT_EQ((*shape)[1], 2 * own.config().image_height);
  EXPECT_EQ(InputConfig(checkpoint, options).image_height, 2 * own.config().image_height);
  EXPECT_EQ(InputConfig(checkpoint, {}).image_height, own.config().image_height);
}

TEST(Open, KeepsTheBuiltModelByThePolicy) {
  const TemporaryFolder folder;
  const std::string old = std::getenv("XDG_CACHE_HOME") ? std::getenv("XDG_CACHE_HOME") : "";
  ::unsetenv("QKV_CACHE");
  ::setenv("XDG_CACHE_HOME", folder.path().c_str(), 1);
  std::string notes;
  const Note note = [&](const std::string& text) { notes += text + "\n"; };
  ModelEntry options{.path = Golden("timm_vit")};
  LoadModel(options, note);
  EXPECT_FALSE(std::filesystem::exists(folder / "qkv"));
  options.cache = CachePolicy::kUse;
  LoadModel(options, note);
  EXPECT_TRUE(std::filesystem::exists(folder / "qkv"));
  options.cache = CachePolicy::kVerify;
  LoadModel(options, note);
  ::unsetenv("XDG_CACHE_HOME");
  const std::string home = std::getenv("HOME") ? std::getenv("HOME") : "";
  ::unsetenv("HOME");
  LoadModel(options, note);
  EXPECT_NE(notes.find("no cache: none of QKV_CACHE"), std::string::npos) << notes;
  if (!home.empty()) ::setenv("HOME", home.c_str(), 1);
  if (!old.empty()) ::setenv("XDG_CACHE_HOME", old.c_str(), 1);
}

}  // namespace
}  // namespace qkv::app
