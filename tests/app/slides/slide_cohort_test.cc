// Labels and feature files as a cohort.
#include "qkv/app/slides/slide_cohort.h"

#include <gtest/gtest.h>

#include <fstream>

#include "qkv/slide/files/feature_file.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv::app {
namespace {

slide::FeatureFile SmallFile(int64_t tiles) {
  slide::FeatureFile file;
  file.features = Tensor<float>({tiles, 3});
  for (int64_t i = 0; i < file.features.size(); ++i) file.features[i] = static_cast<float>(i);
  for (int64_t i = 0; i < tiles; ++i) file.coords.push_back({512 * (i % 4), 512 * (i / 4)});
  file.coord_attributes = {{"patch_size_level0", int64_t{512}}};
  return file;
}

TEST(SlideCohort, SlidesAreFoundByName) {
  const TemporaryFolder folder;
  try {
    slide::WriteFeatureFile(folder / "a.h5", SmallFile(5));
  } catch (const Error& error) {
    GTEST_SKIP() << "no HDF5: " << error.what();
  }
  slide::WriteFeatureFile(folder / "b.1.h5", SmallFile(9));
  std::ofstream(folder / "labels.csv") << "slide_id,label\na.SVS,x\nb.1,y\n";
  const mil::Cohort cohort = OpenCohort(folder.path(), folder / "labels.csv");
  ASSERT_EQ(cohort.slides.size(), 2u);
  const mil::Bag bag = cohort.load(1);
  EXPECT_EQ(bag.features.shape(), Shape({9, 3}));
  EXPECT_EQ(bag.features[26], 26);
  EXPECT_EQ(bag.coords.at(5)[0], 512);
  EXPECT_EQ(bag.side, 512);
  std::ofstream(folder / "labels.csv") << "slide_id,label\na.svs,x\nc.svs,y\n../a,y\n";
  const std::string message = ErrorMessage([&] { OpenCohort(folder.path(), folder / "labels.csv"); });
  EXPECT_NE(message.find("labels.csv:3: no vectors of slide \"c.svs\""), std::string::npos) << message;
  EXPECT_NE(message.find("and of 1 more slides"), std::string::npos) << message;
}

TEST(SlideCohort, SideOfATile) {
  slide::FeatureFile file = SmallFile(9);
  EXPECT_EQ(SideAtLevel0(file), 512);
  file.coord_attributes = {{"patch_size", int64_t{256}}, {"downsample", 4.0}};
  EXPECT_EQ(SideAtLevel0(file), 1024);
  file.coord_attributes = {{"patch_size_level0", std::string("None")}};
  EXPECT_EQ(SideAtLevel0(file), 512);
  file.coords = {{7, 7}};
  EXPECT_EQ(SideAtLevel0(file), 0);
}

}  // namespace
}  // namespace qkv::app
