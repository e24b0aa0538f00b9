#include "qkv/builtin/imagenet.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace qkv::builtin {
namespace {

TEST(ImageNet, NamesTheClassesOfEachSetInTheOrderOfTheirNumbers) {
  for (const int64_t classes : {1000, 10450, 11221, 11821, 21841, 21843}) {
    const std::vector<ImageNetClass> found = ImageNetClasses(classes);
    ASSERT_EQ(std::ssize(found), classes);
    EXPECT_FALSE(ImageNetSet(classes).empty());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].number.size(), 9u);
      EXPECT_FALSE(found[i].names.empty()) << found[i].number;
      if (i > 0) {
        EXPECT_LT(found[i - 1].number, found[i].number);
      }
    }
  }
}

// Output 0 and others of any classifier of ImageNet-1k.
TEST(ImageNet, KnowsTheOriginalClasses) {
  const std::vector<ImageNetClass> found = ImageNetClasses(1000);
  EXPECT_EQ(found[0].number, "n01440764");
  EXPECT_EQ(found[0].names, "tench, Tinca tinca");
  EXPECT_EQ(found[2].names, "great white shark, white shark, man-eater, man-eating shark, Carcharodon carcharias");
  EXPECT_EQ(found[999].number, "n15075141");
  EXPECT_EQ(std::ranges::count(found, "crane", &ImageNetClass::names), 2);  // the bird and the machine
}

TEST(ImageNet, IsEmptyForOtherNumbers) {
  for (const int64_t classes : {0, 10, 999, 1001, 21842}) {
    EXPECT_TRUE(ImageNetClasses(classes).empty()) << classes;
    EXPECT_TRUE(ImageNetSet(classes).empty()) << classes;
  }
}

}  // namespace
}  // namespace qkv::builtin
