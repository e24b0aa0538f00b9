// Maps and the zoomable page of a slide: the files, what the page holds, and scores from vectors or tables.
#include "qkv/app/slides/slide_page.h"

#include <gtest/gtest.h>

#include <cmath>

#include "qkv/app/slides/slide_html.h"
#include "qkv/app/slides/slide_scores.h"
#include "qkv/core/file.h"
#include "qkv/io/json.h"
#include "qkv/report/base64.h"
#include "tests/app/slides/small_slide.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;

// A head whose attention is the first number of each vector, by two branches: of class a as it is, of class b reversed.
class FirstNumber : public mil::Head {
 public:
  FirstNumber() {
    width_ = 2;
    classes_ = {"a", "b"};
  }
  mil::Answer Forward(View<const float> features, std::span<const std::array<int64_t, 2>>, int64_t) const override {
    const int64_t tiles = features.dim(0);
    mil::Answer answer;
    answer.weights = Tensor<float>({2, tiles});
    for (int64_t i = 0; i < tiles; ++i) {
      answer.weights.data()[i] = *features.at(i, 0);
      answer.weights.data()[tiles + i] = -*features.at(i, 0);
    }
    answer.logits = Tensor<float>({2});
    answer.logits.data()[1] = 1;
    return answer;
  }
};

slide::FeatureFile FourTiles() {
  slide::FeatureFile file{.coords = {{256, 256}, {512, 256}, {256, 512}, {512, 512}}};
  file.features = Tensor<float>({4, 2});
  for (int64_t i = 0; i < 4; ++i) file.features.data()[2 * i] = static_cast<float>(i + 1);
  return file;
}

std::string Element(const std::string& html, const std::string& id) {
  const size_t begin = html.find('>', html.find("id=\"" + id + "\"")) + 1;
  return html.substr(begin, html.find("</script>", begin) - begin);
}

TEST(SlideScores, AreOfTheBranchThatIsAskedFor) {
  const FirstNumber head;
  const SlideScores predicted = ScoreTiles(FourTiles(), 256, head, "");
  EXPECT_EQ(predicted.scores, (std::vector<float>{-1, -2, -3, -4}));  // b has the greatest logit
  EXPECT_NEAR(predicted.answers.at("b"), 1 / (1 + std::exp(-1)), 1e-6);
  EXPECT_EQ(ScoreTiles(FourTiles(), 256, head, "a").scores, (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(ScoreTiles(FourTiles(), 256, head, "0").scores, (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(ErrorMessage([&] { ScoreTiles(FourTiles(), 256, head, "c"); }),
            "heatmap: --branch c: expected a class of the head or a number");
  EXPECT_EQ(ErrorMessage([&] { ScoreTiles(FourTiles(), 256, head, "2"); }),
            "heatmap: branch 2 of 2; they count from 0");
  EXPECT_EQ(ErrorMessage([&] { ScoreTiles({}, 256, head, ""); }), "heatmap: the file has no tiles");
}

// A map of another slide's scores would look like one of this slide's.
TEST(SlideScores, BelongToTheSlide) {
  const SlideScores scores = ScoreTiles(FourTiles(), 256, FirstNumber(), "a");
  const slide::SlideFacts facts{.levels = {{768, 768, 1}}}, small{.levels = {{768, 512, 1}}};
  const slide::Attributes same = {{"level0_width", int64_t{768}}, {"level0_height", "None"}},
                          other = {{"level0_width", int64_t{800}}};
  EXPECT_NO_THROW(CheckSlideOfScores(scores, {}, facts));
  EXPECT_NO_THROW(CheckSlideOfScores(scores, same, facts));
  EXPECT_NE(ErrorMessage([&] { CheckSlideOfScores(scores, other, facts); }).find("of a slide of 800 x "),
            std::string::npos);
  EXPECT_NE(ErrorMessage([&] { CheckSlideOfScores(scores, {}, small); }).find("256, 512 lies outside of the slide"),
            std::string::npos);
}

TEST(SlideScores, OfSeveralHeadsAreTheirMean) {
  mil::Answer answer;
  answer.weights = Tensor<float>({2, 3});
  for (int i = 0; i < 6; ++i) answer.weights.data()[i] = static_cast<float>(i);
  EXPECT_EQ(ShownAttention(answer), (std::vector<float>{1.5, 2.5, 3.5}));
  EXPECT_EQ(ShownAttention(answer, 1), (std::vector<float>{3, 4, 5}));
  EXPECT_NE(ErrorMessage([] { ShownAttention({}); }), "");
}

TEST(SlideScores, VectorsOfAnotherSlideAreRefused) {
  slide::SlideFacts facts;
  facts.levels = {{4000, 3000, 1}};
  SlideScores scores;
  scores.side = 256;
  scores.coords = {{0, 0}, {3840, 2816}};
  CheckSlideOfScores(scores, {}, facts);  // says nothing
  CheckSlideOfScores(scores, {{"level0_width", int64_t{4000}}, {"level0_height", int64_t{3000}}}, facts);
  EXPECT_NE(ErrorMessage([&] {
              CheckSlideOfScores(scores, {{"level0_width", int64_t{3999}}}, facts);
            }).find("3999 x 3000"),
            std::string::npos);
  scores.coords.push_back({4000, 0});
  EXPECT_NE(ErrorMessage([&] { CheckSlideOfScores(scores, {}, facts); }).find("lies outside"), std::string::npos);
}

TEST(SlideScores, KnowTheirTilesBySeveralConventions) {
  slide::SlideFacts facts;
  facts.levels = {{4000, 4000, 1}, {1000, 1000, 4}};
  slide::FeatureFile file;
  file.coord_attributes = {{"patch_size", int64_t{256}}, {"patch_size_level0", int64_t{512}}};
  EXPECT_EQ(TileSide(file, facts, {}), 512);
  EXPECT_EQ(TileSide(file, facts, 300), 300);
  file.coord_attributes = {{"patch_size", int64_t{256}}, {"patch_level", int64_t{1}}};
  EXPECT_EQ(TileSide(file, facts, {}), 1024);
  for (const int64_t level : {-1, 2}) {
    file.coord_attributes["patch_level"] = level;
    EXPECT_NE(ErrorMessage([&] { TileSide(file, facts, {}); }).find("--tile-side"), std::string::npos);
  }
}

TEST(SlideScores, ComeFromTables) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& text) {
    WriteFile(folder / "a.csv", text);
    return ReadScores(folder / "a.csv", 256);
  };
  const SlideScores scores = read("id,score,y,x\nq,0.5,7,512.0\nr,-1e-3,0,256\n");
  EXPECT_EQ(scores.coords, (std::vector<std::array<int64_t, 2>>{{512, 7}, {256, 0}}));
  EXPECT_EQ(scores.scores, (std::vector<float>{0.5F, -1e-3F}));
  const auto refused = [&](const std::string& text) { return ErrorMessage([&] { read(text); }); };
  EXPECT_NE(refused("").find("empty"), std::string::npos);
  EXPECT_NE(refused("x,y\n1,2\n").find("there is no score"), std::string::npos);
  EXPECT_NE(refused("x,y,score\n1,2\n").find("line 2: expected x, y and score, got 2"), std::string::npos);
  EXPECT_NE(refused("x,y,score\n1,2.5,3\n").find("expected a whole number as y, got 2.5"), std::string::npos);
  EXPECT_NE(refused("x,y,score\n1,1e12,3\n").find("line 2"), std::string::npos);
  EXPECT_NE(refused("x,y,score\n1,2,nan\n").find("expected a number as score, got nan"), std::string::npos);
  EXPECT_NE(refused("x,y,score\n").find("at least one tile"), std::string::npos);
}

class SlidePage : public testing::Test {
 protected:
  void Write(const SmallSlide& made) {
    WriteSmallSlide(folder_ / "a.tif", made);
    slide_ = slide::OpenSlide(folder_ / "a.tif");
  }

  const TemporaryFolder folder_;
  std::unique_ptr<slide::Slide> slide_;
  const SlideScores scores_ = ScoreTiles(FourTiles(), 256, FirstNumber(), "a");
};

TEST_F(SlidePage, MapsAreAPictureAndObjects) {
  Write({});
  mil::Answer answer;
  answer.weights = Tensor<float>({1, 4});
  answer.weights.data()[2] = 1;
  WriteMaps(*slide_, scores_.coords, 256, answer, folder_ / "maps" / "a");
  EXPECT_EQ(image::DecodeFile(folder_ / "maps" / "a.png").width(), 1024);
  const io::Json json = io::ReadJson(folder_ / "maps" / "a.geojson");
  ASSERT_EQ(json["features"].size(), 4U);
  EXPECT_EQ(json["features"][2]["properties"]["classification"]["name"], "attention: top 1 %");
  SlideMapStyle style{.areas = true};
  WriteHeatAreas(scores_.tiles(), style, folder_ / "areas.geojson.gz");
  EXPECT_GT(fs::file_size(folder_ / "areas.geojson.gz"), 0U);
}

TEST_F(SlidePage, HoldsScoresAndPictures) {
  if (SlideHtml().find("<!-- data -->") == std::string_view::npos) GTEST_SKIP() << "built without Node.js";
  Write({.damaged_tile = 5});  // x 256, y 256: the first of the tiles
  const SlidePageOptions options{.title = "a < b", .answers = {{"tumour", 0.75}}};
  const slide::Pyramid pyramid = WriteSlidePage(*slide_, scores_.tiles(), options, folder_ / "page");
  EXPECT_EQ(pyramid.damaged.size(), 1U);
  const std::string html = ReadFile(folder_ / "page" / "index.html");
  EXPECT_NE(html.find("<title>a &lt; b</title>"), std::string::npos);
  const io::Json facts = io::ParseJson(Element(html, "facts"), "facts");
  EXPECT_EQ(facts["title"], "a < b");
  EXPECT_EQ(facts["size"], io::Json::parse("[1024, 768]"));
  EXPECT_NEAR(facts["mpp"].get<double>(), 0.5, 1e-3);
  EXPECT_EQ(facts["pyramid"]["downsample"], 2);
  EXPECT_EQ(facts["show"], "blurred");
  EXPECT_EQ(facts["answers"][0][0], "tumour");
  EXPECT_EQ(facts["damaged"].size(), 1U);
  ASSERT_EQ(facts["top"].size(), 4U);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(facts["top"][i]["tile"], 3 - i);
    EXPECT_EQ(facts["top"][i]["picture"].get<std::string>().empty(), i == 3) << i;
  }
  const std::string map = report::FromBase64(Element(html, "raw")).value();
  const image::Image raw = image::Decode(std::as_bytes(std::span(map)), {}, "raw");
  ASSERT_EQ(raw.pixels.shape(), Shape({2, 2, 1}));
  EXPECT_EQ(raw.pixels.data()[0], 1);
  EXPECT_EQ(raw.pixels.data()[3], 255);
  EXPECT_EQ(report::FromBase64(Element(html, "coords")).value().size(), 4 * 2 * sizeof(int32_t));
  EXPECT_EQ(report::FromBase64(Element(html, "scores")).value().size(), 4 * sizeof(float));
  EXPECT_TRUE(fs::exists(folder_ / "page" / "slide_files" / "9" / "0_0.webp"));
}

}  // namespace
}  // namespace qkv::app
