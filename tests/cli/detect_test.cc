// qkv detect, and evaluate, run and attend with a detector, from outside. The numbers are transformers' and
// pycocotools' (tests/golden/detector.py).
#include <gtest/gtest.h>

#include <algorithm>

#include "qkv/image/image.h"
#include "tests/cli/program.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;

class Detect : public testing::Test {
 protected:
  static std::string Model() { return Golden("detector"); }
  static std::string Photos() { return Model() + "/photos"; }
  static io::Json Objects(const io::Json& photo) {
    io::Json sorted = photo["objects"];
    std::stable_sort(sorted.begin(), sorted.end(), [](const io::Json& a, const io::Json& b) { return a[0] > b[0]; });
    return sorted;
  }
  const io::Json& Expected(const std::string& name) const {
    const auto& photos = expected_["photos"];
    return *std::ranges::find_if(photos, [&](const io::Json& photo) { return photo["photo"] == name; });
  }

  const TemporaryFolder folder_;
  const io::Json expected_ = io::ReadJson(Model() + "/expected.json");
};

TEST_F(Detect, JsonIsWhatTransformersFinds) {
  const CommandOutput said = Qkv("detect --json -m " + Model() + " " + Photos());
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const std::vector<io::Json> lines = JsonLines(said.out);
  ASSERT_EQ(lines.size(), expected_["photos"].size());
  for (const io::Json& line : lines) {
    const io::Json& wanted = Expected(fs::path(line["path"].get<std::string>()).filename());
    const io::Json objects = Objects(wanted);
    ASSERT_EQ(line["objects"].size(), objects.size());
    EXPECT_EQ(line["height"], wanted["height"]);
    for (size_t i = 0; i < objects.size(); ++i) {
      const io::Json& object = line["objects"][i];
      EXPECT_NEAR(object["score"].get<double>(), objects[i][0].get<double>(), 2e-5);
      EXPECT_EQ(object["index"], objects[i][1]);
      EXPECT_NEAR(object["box"][0].get<double>(), objects[i][2][0].get<double>(), 1e-2);
      EXPECT_NEAR(object["box"][1].get<double>() + object["box"][3].get<double>(), objects[i][2][3].get<double>(),
                  1e-2);
    }
  }
}

TEST_F(Detect, TextNamesTheObjects) {
  const CommandOutput said = Qkv("detect -m " + Model() + " " + Photos() + "/12.png");
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(Contains(said.out, "12.png\n")) << said.out;
  EXPECT_TRUE(Contains(said.out, " %  ")) << said.out;
  const CommandOutput none = Qkv("detect --threshold 1 -m " + Model() + " " + Photos() + "/12.png");
  EXPECT_TRUE(Contains(none.out, "no object above 100 %")) << none.out;
}

TEST_F(Detect, BoxesAreDrawnOnEachPhoto) {
  const std::string out = (folder_ / "boxes/").string();
  const CommandOutput said = Qkv("detect -m " + Model() + " -o " + out + " " + Photos());
  ASSERT_EQ(said.exit_code, 0) << said.err;
  for (const io::Json& photo : expected_["photos"]) {
    const image::Image drawn = image::DecodeFile(out + photo["photo"].get<std::string>());
    EXPECT_EQ(drawn.height(), photo["height"].get<int64_t>());
    EXPECT_EQ(drawn.width(), photo["width"].get<int64_t>());
  }
  const CommandOutput one = Qkv("detect -m " + Model() + " -o " + (folder_ / "one.png").string() + " " + Photos());
  EXPECT_EQ(one.exit_code, 1);
  EXPECT_TRUE(Contains(one.err, "name a folder")) << one.err;
  const CommandOutput jpeg = Qkv("detect -m " + Model() + " -o x.jpg " + Photos() + "/7.png");
  EXPECT_TRUE(Contains(jpeg.err, ".png")) << jpeg.err;
}

TEST_F(Detect, CocoResultsHaveTheNumbersInTheNames) {
  const std::string file = (folder_ / "results.json").string();
  ASSERT_EQ(Qkv("detect -m " + Model() + " --threshold 0 --coco " + file + " " + Photos()).exit_code, 0);
  const io::Json results = io::ReadJson(file);
  EXPECT_EQ(results.size(), 12 * expected_["photos"].size());
  for (const io::Json& photo : expected_["photos"]) {
    const int64_t id = std::stoll(fs::path(photo["photo"].get<std::string>()).stem());
    EXPECT_EQ(std::ranges::count_if(results, [&](const io::Json& result) { return result["image_id"] == id; }), 12);
  }
}

TEST_F(Detect, EvaluateGivesTheScoresOfPycocotools) {
  const std::string file = (folder_ / "results.json").string();
  const CommandOutput said = Qkv("evaluate --json -m " + Model() + " -o " + file + " " + Photos());
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const io::Json scores = io::Json::parse(said.out);
  for (const auto& [name, wanted] : expected_["scores"].items()) {
    if (wanted.get<double>() < 0) {
      EXPECT_TRUE(scores[name].is_null()) << name;
    } else {
      EXPECT_NEAR(scores[name].get<double>(), wanted.get<double>(), 1e-12) << name;
    }
  }
  const io::Json truth = io::ReadJson(Photos() + "/annotations.json");
  for (const io::Json& result : io::ReadJson(file)) {
    EXPECT_TRUE(std::ranges::any_of(truth["categories"],
                                    [&](const io::Json& category) { return category["id"] == result["category_id"]; }));
  }
  const CommandOutput text = Qkv("evaluate -m " + Model() + " " + Photos() + "/annotations.json");
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_TRUE(Contains(text.out, fmt::format("{:.2f} %", 100 * expected_["scores"]["ap"].get<double>()))) << text.out;
  EXPECT_TRUE(Contains(text.out, "person")) << text.out;
}

TEST_F(Detect, CategoriesWithoutAClassAreNamed) {
  fs::copy(Photos(), folder_ / "photos");
  std::string truth = ReadFile(folder_ / "photos/annotations.json");
  const size_t cat = truth.find("\"cat\"");
  ASSERT_NE(cat, truth.npos);
  truth.replace(cat, 5, "\"kitten\"");
  io::Json json = io::Json::parse(truth);
  io::Json stray = json["annotations"][0];
  stray["id"] = 12345, stray["image_id"] = 54321;
  json["annotations"].push_back(stray);
  WriteFile(folder_ / "photos/annotations.json", json.dump());
  const std::string arguments = " -m " + Model() + " " + (folder_ / "photos").string();
  const CommandOutput said = Qkv("evaluate" + arguments);
  EXPECT_EQ(said.exit_code, 0);
  EXPECT_TRUE(Contains(said.err, "no class for 1 of its categories, whose AP counts as 0: \"kitten\"")) << said.err;
  EXPECT_TRUE(Contains(said.out, "1 annotations are left out")) << said.out;
  const io::Json scores = io::Json::parse(Qkv("evaluate --json" + arguments).out);
  EXPECT_EQ(scores["unknown_categories"], io::Json({"kitten"}));
  EXPECT_EQ(scores["unused_annotations"], 1);
  EXPECT_EQ(Qkv("evaluate -m " + Model() + " " + Photos()).err, "");
}

TEST_F(Detect, IdsByPlacesAreSaid) {
  const std::string file = (folder_ / "results.json").string(), odd = (folder_ / "cover.png").string();
  fs::copy_file(Photos() + "/7.png", odd);
  const std::string arguments = "detect -m " + Model() + " " + Photos() + " " + odd;
  const CommandOutput said = Qkv(arguments + " --coco " + file);
  EXPECT_EQ(said.exit_code, 0);
  EXPECT_TRUE(Contains(said.err, "cover.png") && Contains(said.err, "no number")) << said.err;
  EXPECT_EQ(Qkv(arguments).err, "");
  EXPECT_EQ(Qkv("detect -m " + Model() + " " + Photos() + " --coco " + file).err, "");
  const CommandOutput folder = Qkv("detect -m " + Model() + " " + Photos() + " -o " + (folder_ / "boxes").string());
  EXPECT_EQ(folder.exit_code, 1);
  EXPECT_TRUE(Contains(folder.err, "boxes/")) << folder.err;
}

TEST_F(Detect, AnUnreadablePhotoIsNamedAndCountsAsMissed) {
  fs::copy(Photos(), folder_ / "photos");
  WriteFile(folder_ / "photos/7.png", "no photo");
  for (const char* command : {"detect --json", "evaluate --json"}) {
    const CommandOutput said = Qkv(command + (" -m " + Model() + " " + (folder_ / "photos").string()));
    EXPECT_EQ(said.exit_code, 1);
    EXPECT_TRUE(Contains(said.err, "7.png")) << said.err;
  }
}

TEST_F(Detect, OtherModelsAndDataAreRefusedWithAdvice) {
  const CommandOutput classifier = Qkv("detect -m " + Golden("hf_vit") + " " + Photos());
  EXPECT_EQ(classifier.exit_code, 1);
  EXPECT_TRUE(Contains(classifier.err, "qkv classify")) << classifier.err;
  const CommandOutput classify = Qkv("classify -m " + Model() + " " + Photos());
  EXPECT_EQ(classify.exit_code, 1);
  EXPECT_TRUE(Contains(classify.err, "qkv detect")) << classify.err;
  const CommandOutput data = Qkv("evaluate -m " + Model() + " " + Digits());
  EXPECT_EQ(data.exit_code, 1);
  EXPECT_TRUE(Contains(data.err, "COCO annotations")) << data.err;
}

TEST_F(Detect, RunAndVerifyHaveLogitsAndBoxesOfTheOriginal) {
  for (const char* name : {"hf_yolos", "hf_yolos_resized", "hf_yolos_plain", "hf_yolos_model"}) {
    const CommandOutput said = Qkv("verify -m " + Golden(name) + " " + Golden(name) + "/expected.safetensors");
    EXPECT_EQ(said.exit_code, 0) << name << said.out << said.err;
  }
  const CommandOutput said =
      Qkv("verify -m " + Golden("hf_yolos") + " " + Golden("hf_yolos") + "/expected.safetensors");
  EXPECT_TRUE(Contains(said.out, "pred_boxes")) << said.out;
}

TEST_F(Detect, AttendShowsADetectionToken) {
  const CommandOutput said = Qkv("attend -m " + Model() + " --query det3 " + Photos() + "/12.png");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(JsonLines(said.out)[0]["query"], 4);
  const CommandOutput none = Qkv("attend -m " + Model() + " --query det12 " + Photos() + "/12.png");
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_TRUE(Contains(none.err, "det0 … det11")) << none.err;
}

TEST_F(Detect, TheCacheGivesTheSame) {
  const std::string arguments = "detect --json -m " + Model() + " " + Photos();
  const std::string before = "QKV_CACHE=" + (folder_ / "cache").string();
  const CommandOutput plain = Qkv(arguments), first = Qkv(arguments, before), again = Qkv(arguments, before);
  EXPECT_EQ(plain.out, first.out);
  EXPECT_EQ(plain.out, again.out);
  EXPECT_EQ(again.exit_code, 0) << again.err;
}

}  // namespace
}  // namespace qkv
