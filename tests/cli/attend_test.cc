// qkv attend from outside: which files it writes, what is in them, and what it refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "qkv/image/image.h"
#include "qkv/io/json.h"
#include "qkv/io/npy.h"
#include "qkv/io/safetensors.h"
#include "tests/cli/program.h"
#include "tests/support/tiff_levels.h"

namespace qkv {
namespace {

// The number of weights in a page: a byte each, in four letters for three bytes.
size_t WeightsOf(const std::string& html) {
  const size_t begin = html.find("id=\"weights\">") + 13, end = html.find('<', begin);
  return (end - begin) / 4 * 3 - (html[end - 1] == '=') - (html[end - 2] == '=');
}

std::string Digit() { return Digits() + "/3-white.png"; }

TEST(Attend, DrawsAnOverlayByDefault) {
  const TemporaryFolder folder;
  const CommandOutput said = Qkv("attend -o " + (folder / "map.png").string() + " " + Digit());
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(said.out.empty());
  EXPECT_TRUE(Contains(said.err, "7x7 patches, class token: ")) << said.err;
  const image::Image map = image::DecodeFile(folder / "map.png");
  EXPECT_EQ(std::max(map.height(), map.width()), 768);
  EXPECT_EQ(map.channels(), 3);
}

TEST(Attend, PrintsJsonWithoutAFile) {
  const TemporaryFolder folder;
  const std::string npy = (folder / "map.npy").string(), arguments = "attend --head all --query 1,2 ";
  ASSERT_EQ(Qkv(arguments + "-o " + npy + " " + Digit()).exit_code, 0);
  const CommandOutput said = Qkv(arguments + Digit() + " " + Digit());
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(std::ranges::count(said.out, '\n'), 2);
  const io::Json json = io::Json::parse(said.out.substr(0, said.out.find('\n')));
  EXPECT_EQ(json["path"], Digit());
  EXPECT_EQ(json["grid"], io::Json({7, 7}));
  const Tensor<float> written = io::ReadNpy<float>(npy);
  const int64_t heads = written.dim(1), tokens = written.dim(3);
  ASSERT_EQ(json["weights"][0].size(), static_cast<size_t>(heads));
  for (int64_t h = 0; h < heads; ++h) {
    const auto row = json["weights"][0][static_cast<size_t>(h)][0].get<std::vector<float>>();
    EXPECT_TRUE(std::equal(row.begin(), row.end(), written.view().at(0, h, 0))) << h;
    EXPECT_EQ(std::ssize(row), tokens);
  }
}

TEST(Attend, WritesWhatRunWrites) {
  const TemporaryFolder folder;
  const std::string model = " -m " + Golden("timm_reg4_cls") + " ";
  ASSERT_EQ(
      Qkv("run" + model + "--attention all -o " + (folder / "run.safetensors").string() + " " + Digit()).exit_code, 0);
  const auto run = io::SafeTensors::Open(folder / "run.safetensors");
  const CommandOutput all =
      Qkv("attend" + model + "--layer all --head all --query all -o " + (folder / "all.npy").string() + " " + Digit());
  ASSERT_EQ(all.exit_code, 0) << all.err;
  const auto npy = io::ReadNpy<float>(folder / "all.npy");
  const CommandOutput one = Qkv("attend" + model + "--layer 1,0 --head 2 --query 1,2 -o " +
                                (folder / "one.safetensors").string() + " " + Digit());
  ASSERT_EQ(one.exit_code, 0) << one.err;
  const auto file = io::SafeTensors::Open(folder / "one.safetensors");
  const auto weights = io::Convert<float>(*file.Find("weights")), maps = io::Convert<float>(*file.Find("maps")),
             prefix = io::Convert<float>(*file.Find("prefix"));
  constexpr int64_t kHeads = 3, kPrefix = 5, kTokens = kPrefix + 9, kQuery = kPrefix + 5;
  ASSERT_EQ(npy.shape(), Shape({2, kHeads, kTokens, kTokens}));
  ASSERT_EQ(weights.shape(), Shape({2, 1, 1, kTokens}));
  ASSERT_EQ(maps.shape(), Shape({2, 1, 1, 3, 3}));
  ASSERT_EQ(prefix.shape(), Shape({2, 1, 1, kPrefix}));
  EXPECT_EQ(file.metadata().at("grid"), "[3,3]");
  EXPECT_EQ(file.metadata().at("query"), "patch 1,2");
  EXPECT_EQ(file.metadata().at("layers"), "[\"block 1\",\"block 0\"]");
  for (int64_t block = 0; block < 2; ++block) {
    const auto expected = io::Convert<float>(*run.Find(fmt::format("attention.{}", block)));
    for (int64_t i = 0; i < expected.size(); ++i) ASSERT_EQ(npy.view()[block].data()[i], expected[i]);
    for (int64_t k = 0; k < kTokens; ++k) {
      const float weight = *expected.view().at(0, 2, kQuery, k);
      EXPECT_EQ(*weights.view().at(1 - block, 0, 0, k), weight);
      EXPECT_EQ(k < kPrefix ? *prefix.view().at(1 - block, 0, 0, k) : maps.view()[1 - block].data()[k - kPrefix],
                weight);
    }
  }
}

TEST(Attend, FollowsARollout) {
  const TemporaryFolder folder;
  const std::string arguments = "attend -m " + Golden("timm_vit") + " --rollout --discard 0.5 --head max -o ";
  const CommandOutput said = Qkv(arguments + (folder / "map.npy").string() + " " + Digit());
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const auto rollout = io::ReadNpy<float>(folder / "map.npy");
  ASSERT_EQ(rollout.shape(), Shape({1, 1, 1, 10}));
  double sum = 0;
  for (const float x : rollout.span()) sum += x;
  EXPECT_NEAR(sum, 1, 1e-6);
  EXPECT_EQ(Qkv(arguments + (folder / "map.png").string() + " " + Digit()).exit_code, 0);
}

TEST(Attend, PageHoldsItsData) {
  if (!HasImagePages()) GTEST_SKIP() << "this build has no page of images: Node.js was missing";
  const TemporaryFolder folder;
  const std::string image = (folder / "<b>&.png").string(), page = (folder / "map.html").string();
  WriteFile(image, ReadFile(Digit()));
  const CommandOutput said = Qkv("attend -m " + Golden("timm_reg4_cls") + " -o " + page + " '" + image + "'");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const std::string html = ReadFile(page);
  EXPECT_TRUE(Contains(html, "<title>Attention: &lt;b&gt;&amp;.png</title>"));
  EXPECT_FALSE(Contains(html, "<b>&"));
  // Nothing from elsewhere.
  EXPECT_TRUE(Contains(html, "default-src 'none'"));
  for (const char* link : {"src=\"http", "href=\"http", "connect-src", "'self'"})
    EXPECT_FALSE(Contains(html, link)) << link;
  EXPECT_TRUE(Contains(html, "\"grid\":[3,3]"));
  EXPECT_TRUE(Contains(html, "register 3"));
  EXPECT_EQ(WeightsOf(html), 2u * 3 * 14 * 14);  // of two blocks, three heads and 14 x 14 weights
}

TEST(Attend, TellsOfASlideOnce) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "slides");
  for (const char* name : {"a.tif", "b.tif"}) {
    WriteFile(folder / "slides" / name, TiffInLevels({{64, 96}, {32, 48}}, "Aperio Image"));
  }
  const std::string model = " -m " + Golden("timm_vit"), slides = " " + (folder / "slides").string();
  const std::string attend = "attend -o " + (folder / "maps").string() + "/" + model + slides;
  for (const std::string& command :
       {attend, "embed" + model + slides, "run" + model + " -o " + (folder / "o.safetensors").string() + slides}) {
    const CommandOutput said = Qkv(command);
    ASSERT_EQ(said.exit_code, 0) << said.err;
    const size_t first = said.err.find("a slide of 96 x 64 pixels");
    EXPECT_NE(first, said.err.npos) << command << said.err;
    EXPECT_EQ(said.err.find("a slide of", first + 1), said.err.npos) << said.err;
    EXPECT_FALSE(Contains(Qkv(command + " -q").err, "a slide of")) << command;
  }
  const CommandOutput refused = Qkv("embed" + model + slides + "/a.tif --max-pixels 6000");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_TRUE(Contains(refused.err, "more than the limit of 6000") && Contains(refused.err, "qkv slide embed"))
      << refused.err;
}

TEST(Attend, TakesImagesInTheirOwnSize) {
  const TemporaryFolder folder;
  WriteFile(folder / "a.tif", TiffInLevels({{64, 99}}));
  const CommandOutput said = Qkv("attend --size native " + (folder / "a.tif").string() + " -m " + Golden("timm_vit"));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(Contains(said.err, "images keep their size")) << said.err;
  const io::Json maps = JsonLines(said.out).at(0);
  const auto facts = io::Json::parse(Qkv("info --json -m " + Golden("timm_vit")).out);
  EXPECT_EQ(maps["photo"], io::Json({64, 99}));
  const int64_t patch = 64 / maps["grid"][0].get<int64_t>();
  EXPECT_EQ(maps["grid"], io::Json({64 / patch, 99 / patch})) << facts;
  EXPECT_EQ(maps["where"][3], 99 / patch * patch);
}

TEST(Attend, SeveralImagesAreSeveralFiles) {
  const TemporaryFolder folder;
  const std::string images = Digits() + "/3-white.png " + Digits() + "/4-white.png";
  EXPECT_EQ(Qkv("attend -o " + (folder / "maps/").string() + " " + images).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder / "maps/3-white.png"));
  EXPECT_TRUE(std::filesystem::exists(folder / "maps/4-white.png"));
  EXPECT_EQ(Qkv("attend -o '" + (folder / "{}-map.npy").string() + "' " + images).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder / "3-white-map.npy"));
  // One of them broken: the others are drawn, and the exit status tells.
  WriteFile(folder / "broken.png", "no picture");
  const CommandOutput said =
      Qkv("attend -o " + (folder / "more/").string() + " " + (folder / "broken.png").string() + " " + Digit());
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_TRUE(Contains(said.err, "broken.png")) << said.err;
  EXPECT_TRUE(std::filesystem::exists(folder / "more/3-white.png"));
  EXPECT_FALSE(std::filesystem::exists(folder / "more/broken.png"));
}

// 25,165,824 weights at most.
TEST(Attend, PagesAreBounded) {
  if (!HasImagePages()) GTEST_SKIP() << "this build has no page of images: Node.js was missing";
  const TemporaryFolder folder;
  const std::string page = (folder / "map.html").string(),
                    arguments = "attend -m " + Golden("timm_vit") + " -o " + page + " " + Digit() + " ";
  // 48 x 48 patches and a class token: 2 blocks and 3 heads of 2305² weights are too many, 2 blocks are not.
  const CommandOutput less = Qkv(arguments + "--size 384");
  ASSERT_EQ(less.exit_code, 0) << less.err;
  EXPECT_TRUE(Contains(less.err, "the mean of the heads")) << less.err;
  const size_t bytes = std::filesystem::file_size(page);
  EXPECT_GT(bytes, 2u * 2305 * 2305 * 4 / 3);
  EXPECT_LT(bytes, 3u * 2305 * 2305 * 4 / 3);
  // What was asked for by name is not left out: all of one query has room.
  for (const char* all : {"--layer all --head all", "--layer 0,1 --head 0,1,2", "--query cls"}) {
    const CommandOutput said = Qkv(arguments + "--size 384 " + all);
    ASSERT_EQ(said.exit_code, 0) << all << said.err;
    EXPECT_TRUE(Contains(said.err, "2305 tokens: the page holds the attention of one query, class token")) << said.err;
    EXPECT_EQ(WeightsOf(ReadFile(page)), 2u * 3 * 2305) << all;
  }
  // 71 x 71: even one map of 5042² weights is too much, one query's is not.
  const std::pair<const char*, size_t> maps[] = {{"", 2 * 3},      {"--head mean", 2},      {"--layer 0", 3},
                                                 {"--rollout", 1}, {"--query 70,3", 2 * 3}, {"--query mean", 2 * 3}};
  for (const auto& [options, count] : maps) {
    const CommandOutput said = Qkv(arguments + "--size 568 " + options);
    ASSERT_EQ(said.exit_code, 0) << options << said.err;
    EXPECT_TRUE(Contains(said.err, "one query")) << said.err;
    EXPECT_EQ(WeightsOf(ReadFile(page)), count * 5042) << options;
  }
  std::filesystem::remove(page);
  const CommandOutput said = Qkv(arguments + "--size 568 --query all");
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_TRUE(Contains(said.err, "one token by --query")) << said.err;
  EXPECT_FALSE(std::filesystem::exists(page));
}

TEST(Attend, OverwritesNoImageThatIsReadLater) {
  const TemporaryFolder folder;
  const std::string first = (folder / "1.png").string(), second = (folder / "b1.png").string();
  WriteFile(first, ReadFile(Digit())), WriteFile(second, ReadFile(Digit()));
  std::filesystem::create_symlink(second, folder / "c1.png");
  for (const char* name : {"b{}.png", "./b{}.png", "c{}.png"}) {
    const CommandOutput said = Qkv("attend " + first + " " + second + " -o '" + (folder / name).string() + "'");
    EXPECT_EQ(said.exit_code, 1) << name;
    EXPECT_TRUE(Contains(said.err, second + ", which is read")) << said.err;
    EXPECT_EQ(ReadFile(second), ReadFile(Digit())) << name;
  }
}

TEST(Attend, SaysWhatItRefuses) {
  const TemporaryFolder folder;
  const std::string out = (folder / "map.png").string(), copy = (folder / "copy.png").string();
  WriteFile(copy, ReadFile(Digit()));
  const std::string model = "-m " + Golden("timm_vit") + " -o " + out + " ";
  const std::pair<std::string, std::string> cases[] = {
      {model + "--layer 2 " + Digit(), "from 0 to 1"},
      {model + "--head 3 " + Digit(), "from 0 to 2"},
      {model + "--query 3,0 " + Digit(), "2,2"},
      {model + "--query reg0 " + Digit(), "cls"},
      {model + "--query all " + Digit(), ".npy"},
      {model + "--discard 0.5 " + Digit(), "--rollout"},
      {model + "--rollout --head 1 " + Digit(), "--head"},
      {model + "--rollout --layer all " + Digit(), "--layer"},
      {model + "--rollout --start 2 " + Digit(), "--start"},
      {model + Digit() + " " + copy, "{}"},
      {"-o " + (folder / "map.txt").string() + " " + Digit(), ".safetensors"},
      {"-o " + copy + " " + copy, "which is read"},
      {"-o " + folder.path().string() + " " + copy, "which is read"},
      {"-o " + (folder / "maps/").string() + " " + copy + " " + copy, "both"},
      {model + "/nonexistent.png", "/nonexistent.png"},
  };
  for (const auto& [arguments, named] : cases) {
    const CommandOutput said = Qkv("attend " + arguments);
    EXPECT_EQ(said.exit_code, 1) << arguments;
    EXPECT_TRUE(Contains(said.err, named)) << arguments << ": " << said.err;
  }
  EXPECT_EQ(ReadFile(copy), ReadFile(Digit()));
  EXPECT_FALSE(std::filesystem::exists(out));
  for (const char* arguments : {"attend", "attend -o x.png", "attend -o x.png --discard 1 x.png"}) {
    EXPECT_EQ(Qkv(arguments).exit_code, 2) << arguments;
  }
}

// Photos of the same name in two folders are usual: maps/ then has these folders.
TEST(Attend, MirrorsFoldersWhereNamesRepeat) {
  const TemporaryFolder folder;
  for (const char* name : {"in/a/x.png", "in/b/x.png", "in/b/c/y.png"}) {
    std::filesystem::create_directories((folder / name).parent_path());
    std::filesystem::copy_file(Digits() + "/8-black.png", folder / name);
  }
  const CommandOutput said = Qkv("attend -o " + (folder / "maps").string() + "/ " + (folder / "in").string());
  ASSERT_EQ(said.exit_code, 0) << said.err;
  for (const char* name : {"maps/a/x.png", "maps/b/x.png", "maps/b/c/y.png"}) {
    EXPECT_TRUE(std::filesystem::exists(folder / name)) << name;
  }
}

}  // namespace
}  // namespace qkv
