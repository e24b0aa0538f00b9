#include "qkv/app/attention/attend.h"

#include <gtest/gtest.h>

#include "qkv/app/attention/attend_page.h"
#include "qkv/app/attention/attention_files.h"
#include "qkv/app/open/open.h"
#include "qkv/core/file.h"
#include "qkv/io/npy.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv::app {
namespace {

std::string Photo() { return (SourceFolder() / "examples/digits/1-black.png").string(); }

class Attended : public testing::Test {
 protected:
  AttentionMaps Compute(AttendRequest request) {
    return AttentionMapper(model_, std::move(request)).Compute(Photo(), {});
  }
  const model::Model model_ = LoadModel({});
  const int64_t depth_ = model_.config().depth, heads_ = model_.config().block.attention.heads;
};

TEST_F(Attended, HasOneJsonForm) {
  AttentionMaps maps{.path = "p.png",
                     .model = "vit",
                     .where = {1, 2, 8, 4},
                     .layers = {"block 3"},
                     .heads = {"mean"},
                     .weights = Tensor<float>({1, 1, 1, 3})};
  maps.photo.pixels = Tensor<uint8_t>({16, 12, 3});
  maps.grid = {.prefix = {"class"}, .height = 2, .width = 1, .class_token = true};
  maps.query = {inspect::Query::Kind::kToken, 1};
  for (int i = 0; i < 3; ++i) maps.weights[i] = static_cast<float>(i) / 4;
  io::Json expected = io::Json::parse(R"({"path": "p.png", "model": "vit", "photo": [16, 12], "where": [1, 2, 8, 4],
    "grid": [2, 1], "prefix": ["class"], "query": 1, "layers": ["block 3"], "heads": ["mean"]})");
  EXPECT_EQ(Facts(maps), expected);
  expected["weights"] = {{{{0, 0.25, 0.5}}}};
  EXPECT_EQ(ToJson(maps), expected);
  maps.query = {inspect::Query::Kind::kMean, 0};
  EXPECT_EQ(ToJson(maps)["query"], -1);
}

TEST_F(Attended, DefaultsDependOnTheFormat) {
  const AttentionMaps picture = Compute({.format = MapFormat::kPng}), page = Compute({.format = MapFormat::kHtml});
  EXPECT_EQ(picture.weights.shape(), Shape({1, 1, 1, picture.grid.tokens()}));
  EXPECT_EQ(picture.layers, std::vector{"block " + std::to_string(depth_ - 1)});
  EXPECT_EQ(page.weights.shape(), Shape({depth_, heads_, page.grid.tokens(), page.grid.tokens()}));
  EXPECT_EQ(ToJson(page)["weights"].size(), static_cast<size_t>(depth_));
  EXPECT_TRUE(picture.top.empty());
  ASSERT_EQ(page.top.size(), 3u);
  EXPECT_EQ(page.top[0].label, "1");
  EXPECT_EQ(Compute({.model = "cats"}).model, "cats");
}

TEST_F(Attended, PageHasItsDataBeforeTheProgram) {
  const AttentionMaps maps = Compute({.format = MapFormat::kHtml});
  if (!HasAttendPage()) {
    EXPECT_NE(ErrorMessage([&] { AttendPage(maps); }).find("built without Node.js"), std::string::npos);
    GTEST_SKIP() << "this build has no page of images: Node.js was missing";
  }
  const std::string html = AttendPage(maps);
  EXPECT_TRUE(html.starts_with("<!doctype html>"));
  EXPECT_NE(html.find("<title>Attention: 1-black.png</title>"), html.npos);
  EXPECT_EQ(html.find("<title>Attention</title>"), html.npos);
  EXPECT_NE(html.find("\"title\":\"1-black.png\""), html.npos);
  EXPECT_NE(html.find("\"label\":\"1\""), html.npos);
  const size_t program = html.find("<script type=\"module\"");
  ASSERT_NE(program, html.npos);
  for (const char* id : {"facts", "weights", "scales", "photo"}) {
    EXPECT_LT(html.find(" id=\"" + std::string(id) + "\">"), program) << id;
  }
}

TEST_F(Attended, RefusesWhatTheModelDoesNotHave) {
  for (const AttendRequest& request :
       {AttendRequest{.layers = "99"}, AttendRequest{.head = "x"}, AttendRequest{.discard = 0.5},
        AttendRequest{.start = 1}, AttendRequest{.layers = "0,1", .rollout = true},
        AttendRequest{.head = "0", .rollout = true}, AttendRequest{.layers = "0", .rollout = true, .start = 1}}) {
    EXPECT_THROW(AttentionMapper(model_, request), Error);
  }
  EXPECT_THROW(Compute({.query = "reg0"}), Error);
  EXPECT_THROW(Compute({.query = "all", .format = MapFormat::kPng}), Error);
  EXPECT_THROW(ParseOutputFormat("map.jpg"), Error);
  EXPECT_THROW(ParseUpsampling("cubic", "--upsampling"), Error);
}

TEST_F(Attended, LeavesOutWhatMakesAPageTooLarge) {
  const model::Model large = LoadModel({.size = InputSize{168, 168}});  // 1 + 42² tokens
  std::string note;
  const AttentionMaps maps =
      AttentionMapper(large, {.format = MapFormat::kHtml, .note = [&](const std::string& text) { note = text; }})
          .Compute(Photo(), {});
  EXPECT_EQ(maps.heads, std::vector<std::string>{"mean"});
  EXPECT_NE(note.find("--layer and --head choose others"), note.npos);
}

TEST_F(Attended, HoldsOneQueryWhereAPageHasNoRoomForAll) {
  const model::Model large = LoadModel({.size = InputSize{168, 168}});  // 1 + 42² tokens
  std::string note;
  const auto compute = [&](AttendRequest request) {
    request.note = [&](const std::string& text) { note = text; };
    return AttentionMapper(large, request).Compute(Photo(), {});
  };
  const AttentionMaps page = compute({.query = "3,4", .format = MapFormat::kHtml});
  EXPECT_EQ(page.weights.shape(), Shape({depth_, heads_, 1, page.grid.tokens()}));
  EXPECT_NE(note.find("one query, patch 3,4; --query chooses another"), note.npos) << note;
  const AttentionMaps array = compute({.layers = "all", .head = "all", .query = "3,4"});
  for (int64_t i = 0; i < array.weights.size(); ++i) ASSERT_EQ(page.weights[i], array.weights[i]);
  ASSERT_EQ(page.top.size(), 3u);
  // The classes are of the same pass.
  const model::Prediction best = large.Classify(image::DecodeFile(Photo()), 1).front();
  EXPECT_EQ(page.top[0].index, best.index);
  EXPECT_NEAR(page.top[0].score, best.score, 1e-4);
  EXPECT_EQ(compute({.layers = "all", .head = "all", .format = MapFormat::kHtml}).weights.dim(2), 1);
  EXPECT_EQ(compute({.query = "mean", .format = MapFormat::kHtml}).weights.dim(2), 1);
  EXPECT_THROW(compute({.query = "all", .format = MapFormat::kHtml}), Error);
  if (!HasAttendPage()) return;
  const std::string html = AttendPage(page);
  EXPECT_NE(html.find("id=\"photo\">UklGR"), html.npos);  // WebP
}

TEST_F(Attended, IsWrittenInEachFormat) {
  const TemporaryFolder folder;
  for (const char* name : {"m.png", "m.npy", "m.safetensors", "m.html", "m.json"}) {
    if (std::string_view(name) == "m.html" && !HasAttendPage()) continue;
    const MapFormat format = ParseOutputFormat(name);
    WriteMaps(Compute({.format = format}), format, {.side = 64}, folder / name);
    EXPECT_TRUE(std::filesystem::exists(folder / name)) << name;
  }
  const AttentionMaps maps = Compute({});
  const Tensor<float> npy = io::ReadNpy<float>(folder / "m.npy");
  ASSERT_EQ(npy.shape(), maps.weights.shape());
  for (int64_t i = 0; i < npy.size(); ++i) ASSERT_EQ(npy[i], maps.weights[i]);
  const image::Image sheet = Picture(Compute({.layers = "all", .head = "all"}), {});
  EXPECT_GT(sheet.width(), 64 * heads_);
}

}  // namespace
}  // namespace qkv::app
