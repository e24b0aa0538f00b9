#include "qkv/app/info.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "qkv/app/open.h"
#include "tests/support/files.h"

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

TEST(Info, ListsAssumptions) {
  const model::Checkpoint checkpoint =
      OpenCheckpoint({.path = (SourceFolder() / "tests/golden/vit_pytorch_simple/model.safetensors").string()});
  ASSERT_FALSE(checkpoint.description.assumptions.empty());
  const auto lines = InfoLines(checkpoint);
  EXPECT_EQ(std::ranges::count(lines, "assumed", &std::pair<std::string, std::string>::first),
            std::ssize(checkpoint.description.assumptions));
  EXPECT_EQ(InfoJson(checkpoint)["assumptions"], io::Json(checkpoint.description.assumptions));
}

}  // namespace
}  // namespace qkv::app
