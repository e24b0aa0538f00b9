#include "qkv/app/images/classify.h"

#include <gtest/gtest.h>

#include "qkv/app/open/open.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"

namespace qkv::app {
namespace {

std::string Digit(const std::string& name) { return (SourceFolder() / "examples/digits" / name).string(); }

TEST(Classify, HasOneJsonForm) {
  const Classification both{.path = "a/b.png", .top = {{3, "cat", 0.75f}, {1, "", 0.25f}}, .logits = {0, 1, -2, 3}};
  EXPECT_EQ(ToJson(both), io::Json::parse(R"({"path": "a/b.png", "logits": [0, 1, -2, 3], "top": [
    {"index": 3, "label": "cat", "score": 0.75}, {"index": 1, "label": "class 1", "score": 0.25}]})"));
  EXPECT_EQ(ToJson(Classification{.path = "x"}), io::Json::parse(R"({"path": "x", "top": []})"));
}

TEST(Classify, GivesResultsInTheOrderOfTheImagesAndLeavesUnreadableOnesOut) {
  const TemporaryFolder folder;
  WriteFile(folder / "broken.png", "no image");
  const model::Model model = LoadModel({});
  std::string notes;
  std::vector<Classification> all;
  int64_t done = 0;
  ClassifyOptions options{.top = 2, .logits = true};
  options.pipeline.note = [&](const std::string& text) { notes += text; };
  options.pipeline.advance = [&](int64_t images) { done += images; };
  const ImageList images = CollectImages(
      {Digit("7-black.png"), (folder / "broken.png").string(), Digit("2-white.png"), Digit("7-black.png")}, {});
  EXPECT_EQ(
      Classify(model, images, options, [&](auto results) { all.insert(all.end(), results.begin(), results.end()); }),
      1);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(done, 4);
  EXPECT_NE(notes.find("broken.png"), std::string::npos);
  EXPECT_EQ(all[0].path, Digit("7-black.png"));
  EXPECT_EQ(all[0].top.size(), 2u);
  EXPECT_EQ(all[0].top[0].index, 7);
  EXPECT_EQ(all[1].top[0].index, 2);
  EXPECT_EQ(all[0].logits.size(), 10u);
  EXPECT_EQ(all[0].logits, all[2].logits);
}

TEST(Classify, NeedsAClassifier) {
  const model::Model model = LoadModel({.path = GoldenFolder("hf_dinov2_model").string()});
  ASSERT_EQ(model.config().classes, 0);
  EXPECT_THROW(Classify(model, CollectImages({Digit("7-black.png")}, {}), {}, [](auto) {}), Error);
}

}  // namespace
}  // namespace qkv::app
