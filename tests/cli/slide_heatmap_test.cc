// qkv slide heatmap, as users run it.
#include <gtest/gtest.h>

#include "qkv/image/image.h"
#include "tests/app/slides/small_slide.h"
#include "tests/cli/program.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;

class SlideHeatmaps : public testing::Test {
 protected:
  SlideHeatmaps() {
    WriteSmallSlide(folder_ / "one.tif", {.damaged_tile = 5});
    WriteFile(folder_ / "mine.csv", "x,y,score\n256,256,0.25\n512,256,0.5\n512,512,1\n");
  }

  CommandOutput Run(const std::string& options) {
    return Qkv("slide heatmap one.tif -o out/a " + options, "cd " + folder_.path().string() + " && ");
  }

  const TemporaryFolder folder_;
};

TEST_F(SlideHeatmaps, ShowScoresOfATable) {
  const CommandOutput said = Run("--scores mine.csv --tile-side 256 --show raw --opacity 1 --side 512");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const std::vector<io::Json> lines = JsonLines(said.out);
  ASSERT_EQ(lines.size(), 1);
  EXPECT_EQ(lines[0]["tiles"], 3);
  EXPECT_EQ(lines[0]["files"], io::Json::parse(R"(["out/a.png", "out/a.geojson.gz"])"));
  EXPECT_EQ(image::DecodeFile(folder_ / "out/a.png").width(), 512);
  EXPECT_TRUE(Contains(said.err, "one.tif")) << said.err;  // its damaged tile
  EXPECT_TRUE(fs::exists(folder_ / "out/a.geojson.gz"));
}

TEST_F(SlideHeatmaps, AreWrittenIntoTheWorkingDirectory) {
  const CommandOutput said =
      Qkv("slide heatmap one.tif -o a --scores mine.csv --tile-side 256", "cd " + folder_.path().string() + " && ");
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(fs::exists(folder_ / "a.png"));
}

TEST_F(SlideHeatmaps, MakeAPageAndGoOn) {
  const std::string options = "--scores mine.csv --tile-side 256 --page";
  const CommandOutput said = Run(options);
  if (Contains(said.err, "without Node.js")) GTEST_SKIP() << said.err;
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(Contains(said.err, "1 parts of one.tif cannot be read and are grey")) << said.err;
  EXPECT_TRUE(Contains(ReadFile(folder_ / "out/a_page/index.html"), "<title>one</title>"));
  const auto picture = folder_ / "out/a_page/slide_files/9/0_0.webp";
  ASSERT_TRUE(fs::exists(picture));
  const auto before = fs::last_write_time(picture);
  ASSERT_EQ(Run(options).exit_code, 0);
  EXPECT_EQ(fs::last_write_time(picture), before);
  const CommandOutput other = Run(options + " --finest-mpp 0.5");
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_TRUE(Contains(other.err, "has pictures of another slide")) << other.err;
}

TEST_F(SlideHeatmaps, SayWhatTheyNeed) {
  for (const auto& [options, why] : {std::pair{"", "expected --features FILE.h5 and --head PATH, or --scores"},
                                     {"--scores mine.csv", "--scores needs --tile-side"},
                                     {"--scores mine.csv --tile-side 0", "--tile-side"},
                                     {"--scores mine.csv --head x.pt --tile-side 256", "--head"},
                                     {"--scores one.tif --tile-side 256", "one.tif"},
                                     {"--features none.h5 --head x.pt", "none.h5"}}) {
    const CommandOutput said = Run(options);
    EXPECT_NE(said.exit_code, 0) << options;
    EXPECT_TRUE(Contains(said.err, why)) << options << ": " << said.err;
    EXPECT_FALSE(fs::exists(folder_ / "out")) << options;
  }
}

}  // namespace
}  // namespace qkv
