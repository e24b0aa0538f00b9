// qkv evaluate from outside.
#include <gtest/gtest.h>

#include <map>

#include "qkv/image/resize.h"
#include "tests/cli/program.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;

// The hand-drawn digits, a folder each; the seven of them lie among the ones.
void SortDigits(const fs::path& folder) {
  for (int digit = 0; digit < 10; ++digit) {
    for (const char* colour : {"black", "white"}) {
      const fs::path target = folder / fmt::format("{}", digit == 7 ? 1 : digit);
      fs::create_directories(target);
      fs::copy_file(Digits() + fmt::format("/{}-{}.png", digit, colour),
                    target / fmt::format("{}-{}.png", digit, colour));
    }
  }
}

io::Json EvaluatedJson(const std::string& arguments) {
  const CommandOutput said = Qkv("evaluate --json " + arguments);
  EXPECT_EQ(said.exit_code, 0) << said.err;
  return io::Json::parse(said.out);
}

// The white digits on black, as MNIST has its own.
void WriteIdx(const fs::path& folder, const std::string& split, int count) {
  std::string images, labels;
  for (int i = 0; i < count; ++i) {
    const image::Image grey = image::ToChannels(image::DecodeFile(Digits() + fmt::format("/{}-white.png", i % 10)), 1);
    const image::Image image = image::Resize(grey, 28, 28, image::Filter::kBicubic);
    images.append(reinterpret_cast<const char*>(image.pixels.data()), static_cast<size_t>(image.pixels.size()));
    labels += static_cast<char>(i % 10);
  }
  const auto file = [&](const std::string& name, std::vector<int> extents, const std::string& values) {
    std::string header{'\0', '\0', '\x08', static_cast<char>(extents.size())};
    for (const int extent : extents) {
      for (int shift = 24; shift >= 0; shift -= 8) header += static_cast<char>(extent >> shift);
    }
    WriteFile(folder / (split + name), header + values);
  };
  file("-images-idx3-ubyte", {count, 28, 28}, images);
  file("-labels-idx1-ubyte", {count}, labels);
}

// The first five of four classes are always right.
TEST(Evaluate, HasNoTopFiveOfFewClasses) {
  const TemporaryFolder folder;
  const io::Json config = io::Json::parse(ReadFile(Golden("timm_swiglu_packed") + "/config.json"));
  const int64_t classes = config["num_classes"];
  ASSERT_EQ(classes, 5);
  for (int64_t i = 0; i < classes; ++i) {
    fs::create_directories(folder / fmt::format("data/{}", i));
    fs::copy_file(Digits() + "/8-black.png", folder / fmt::format("data/{}/8.png", i));
  }
  const io::Json json = EvaluatedJson("-m " + Golden("timm_swiglu_packed") + " " + (folder / "data").string());
  EXPECT_FALSE(json.contains("top5"));
  const CommandOutput text = Qkv("evaluate -m " + Golden("timm_swiglu_packed") + " " + (folder / "data").string());
  EXPECT_FALSE(Contains(text.out, "top-5")) << text.out;
}

TEST(Evaluate, CountsWhatClassifySays) {
  const TemporaryFolder folder;
  SortDigits(folder.path());
  std::map<std::string, int> right;
  int all = 0, first_five = 0;
  for (const io::Json& line : JsonLines(Qkv("classify --json " + folder.path().string()).out)) {
    const std::string truth = fs::path(line["path"].get<std::string>()).parent_path().filename();
    const bool hit = line["top"][0]["label"] == truth;
    right[truth] += hit, all += hit;
    for (const io::Json& guess : line["top"]) first_five += guess["label"] == truth;
  }
  const std::string predictions = (folder / "predictions.csv").string();
  const io::Json json = EvaluatedJson("--predictions " + predictions + " " + folder.path().string());
  const std::string table = ReadFile(predictions);
  EXPECT_TRUE(table.starts_with("path,truth,guess,right,confidence,true_probability\n")) << table;
  EXPECT_EQ(std::ranges::count(table, '\n'), 21);
  int right_rows = 0;
  for (size_t at = 0; (at = table.find(",1,", at)) != table.npos; ++at) ++right_rows;
  EXPECT_GE(right_rows, all);
  EXPECT_EQ(json["images"], 20);
  EXPECT_EQ(json["unreadable"], 0);
  EXPECT_DOUBLE_EQ(json["top1"], all / 20.0);
  EXPECT_DOUBLE_EQ(json["top5"], first_five / 20.0);
  EXPECT_LT(json["top1"].get<double>(), 0.95);  // the sevens
  ASSERT_EQ(json["classes"].size(), 9u);        // no class 7
  for (const io::Json& entry : json["classes"]) EXPECT_EQ(entry["right"], right[entry["name"]]) << entry;
  EXPECT_EQ(json["classes"][1]["images"], 4);
  EXPECT_EQ(json["classes"][1]["mistake"]["name"], "7");  // a class that the data has not, by the model's name
  EXPECT_EQ(json["classes"][1]["mistake"]["images"], 2);
  int images = 0;
  for (const io::Json& bin : json["calibration"]) images += bin["images"].get<int>();
  EXPECT_EQ(images, 20);
  for (const char* dtype : {"bf16", "int8"}) {
    EXPECT_NEAR(EvaluatedJson(std::string("--dtype ") + dtype + " " + folder.path().string())["top1"], all / 20.0,
                0.101)
        << dtype;
  }
}

TEST(Evaluate, TakesTheTestSplitUnlessToldOtherwise) {
  const TemporaryFolder folder;
  SortDigits(folder / "train");
  fs::create_directories(folder / "test/3");
  fs::copy_file(Digits() + "/3-white.png", folder / "test/3/a.png");
  const std::string data = folder.path().string();
  EXPECT_EQ(EvaluatedJson(data)["images"], 1);
  EXPECT_EQ(EvaluatedJson(data)["top1"], 1);
  EXPECT_EQ(EvaluatedJson("--split train " + data)["images"], 20);
  const CommandOutput said = Qkv("evaluate --split val " + data);
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_TRUE(Contains(said.err, "no split \"val\", only \"train\", \"test\"")) << said.err;
  EXPECT_EQ(Qkv("evaluate --split foo " + data).exit_code, 2);
}

TEST(Evaluate, ReadsPixelsThatAreNoFiles) {
  const TemporaryFolder folder;
  WriteIdx(folder.path(), "t10k", 30);
  const io::Json json = EvaluatedJson(folder.path().string());
  EXPECT_EQ(json["images"], 30);
  EXPECT_GT(json["top1"].get<double>(), 0.85);
  const std::string list = (folder / "list.csv").string();
  std::string rows = "file,label\n";
  for (int i = 0; i < 10; ++i) rows += fmt::format("{}/{}-white.png,{}\n", Digits(), i, i);
  WriteFile(list, rows);
  EXPECT_EQ(EvaluatedJson(list)["top1"], json["top1"]);
  // Images in memory have their pictures too.
  std::string labels = ReadFile(folder / "t10k-labels-idx1-ubyte");
  labels.back() = 3;
  WriteFile(folder / "t10k-labels-idx1-ubyte", labels);
  const std::string page = (folder / "page.html").string();
  ASSERT_EQ(Qkv("evaluate --report " + page + " " + folder.path().string()).exit_code, 0);
  EXPECT_TRUE(Contains(ReadFile(page), "data:image/webp") && Contains(ReadFile(page), "is 3, "));
}

TEST(Evaluate, PrintsATableAndWritesPictures) {
  const TemporaryFolder folder;
  SortDigits(folder / "data");
  const std::string svg = (folder / "c.svg").string(), png = (folder / "c.png").string(),
                    page = (folder / "page.html").string(), data = (folder / "data").string();
  const CommandOutput said = Qkv("evaluate --report " + page + " -o " + svg + " " + data);
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(Contains(said.out, "top-1 accuracy") && Contains(said.out, "calibration error")) << said.out;
  EXPECT_TRUE(Contains(said.out, "7 (2)")) << said.out;
  EXPECT_TRUE(Contains(ReadFile(svg), "<svg") && Contains(ReadFile(svg), "taken for"));
  EXPECT_TRUE(Contains(ReadFile(page), "Reliability") && Contains(ReadFile(page), "Confusion"));
  const std::string html = ReadFile(page);
  EXPECT_TRUE(Contains(html, "Worst mistakes") && Contains(html, "is 1, "));
  size_t pictures = 0;
  for (size_t at = html.find("data:image/webp"); at != html.npos; at = html.find("data:image/webp", at + 1)) ++pictures;
  EXPECT_EQ(pictures, 2u) << "the two sevens among the ones";
  ASSERT_EQ(Qkv("evaluate -o " + png + " " + data).exit_code, 0);
  const image::Image picture = image::DecodeFile(png);
  EXPECT_GT(picture.width(), 200);
  const CommandOutput refused = Qkv("evaluate -o " + (folder / "c.jpg").string() + " " + data);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_TRUE(Contains(refused.err, ".svg or a .png")) << refused.err;
  EXPECT_EQ(Qkv("evaluate -o /nonexistent/c.svg " + data).exit_code, 1);
}

// The golden's classes are called otherwise than by their order.
TEST(Evaluate, MatchesClassesByName) {
  const TemporaryFolder folder;
  const std::string model = Golden("timm_vit_labels");
  const io::Json config = io::Json::parse(ReadFile(model + "/config.json"));
  std::vector<std::string> labels;
  for (const io::Json& name : config["label_names"]) labels.push_back(config["label_descriptions"][name]);
  std::map<std::string, int64_t> right;
  for (int digit = 0; digit < 10; ++digit) {
    const std::string file = Digits() + fmt::format("/{}-white.png", digit);
    const io::Json line = JsonLines(Qkv("classify --json -m " + model + " " + file).out).at(0);
    const std::string truth = line["top"][0]["label"];
    fs::create_directories(folder / "data" / truth);
    fs::copy_file(file, folder / "data" / truth / fmt::format("{}.png", digit));
  }
  for (const std::string& label : labels) fs::create_directories(folder / "data" / label);
  EXPECT_EQ(EvaluatedJson("-m " + model + " " + (folder / "data").string())["top1"], 1);
  fs::create_directories(folder / "data/zebra crossing");
  const CommandOutput said = Qkv("evaluate -m " + model + " " + (folder / "data").string());
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_TRUE(Contains(said.err, "zebra crossing")) << said.err;
}

TEST(Evaluate, AModelWithoutNamesTakesTheOrder) {
  const TemporaryFolder folder;
  const std::string model = Golden("timm_vit");
  const auto classes = io::Json::parse(Qkv("info --json -m " + model).out)["classes"].get<int>();
  for (int i = 0; i < classes; ++i) {
    fs::create_directories(folder / fmt::format("kind {}", i));
    fs::copy_file(Digits() + "/3-white.png", folder / fmt::format("kind {}/a.png", i));
  }
  const CommandOutput said = Qkv("evaluate --json -m " + model + " " + folder.path().string());
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(Contains(said.err, "in their order")) << said.err;
  EXPECT_DOUBLE_EQ(io::Json::parse(said.out)["top1"], 1.0 / classes);  // the same image in every class
  fs::remove_all(folder / "kind 0");
  const CommandOutput few = Qkv("evaluate -m " + model + " " + folder.path().string());
  EXPECT_EQ(few.exit_code, 1);
  EXPECT_TRUE(Contains(few.err, "without names")) << few.err;
}

TEST(Evaluate, UnreadableFilesAreNamedAndLeftOut) {
  const TemporaryFolder folder;
  SortDigits(folder.path());
  WriteFile(folder / "3/broken.png", "no image at all");
  const CommandOutput said = Qkv("evaluate --json " + folder.path().string());
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_TRUE(Contains(said.err, "broken.png")) << said.err;
  const io::Json json = io::Json::parse(said.out);
  EXPECT_EQ(json["images"], 20);
  EXPECT_EQ(json["unreadable"], 1);
  EXPECT_EQ(Qkv("evaluate /nonexistent").exit_code, 1);
  EXPECT_EQ(Qkv("evaluate").exit_code, 2);
}

}  // namespace
}  // namespace qkv
