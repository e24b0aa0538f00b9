// qkv segment, and run, attend and info with a model of masks, from outside. The numbers are transformers' and
// pycocotools' (tests/golden/segmenter.py).
#include <gtest/gtest.h>

#include <algorithm>

#include "qkv/image/image.h"
#include "tests/cli/program.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;

class SegmentCommand : public testing::Test {
 protected:
  static std::string Model() { return Golden("segmenter"); }
  static std::string Photos() { return Model() + "/photos"; }
  static std::string Semantic() { return Golden("segmenter_semantic"); }
  static const io::Json& Of(const io::Json& photos, const std::string& path) {
    const std::string name = fs::path(path).filename();
    return *std::ranges::find_if(photos, [&](const io::Json& photo) { return photo["photo"] == name; });
  }

  const TemporaryFolder folder_;
  const io::Json expected_ = io::ReadJson(Model() + "/expected.json");
};

TEST_F(SegmentCommand, JsonIsWhatTransformersFinds) {
  const CommandOutput said = Qkv("segment --json --threshold 0.3 --mask-threshold 0.4 --overlap 0.2 --stuff sky,3 -m " +
                                 Model() + " " + Photos());
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const std::vector<io::Json> lines = JsonLines(said.out);
  ASSERT_EQ(lines.size(), expected_["photos"].size());
  for (const io::Json& line : lines) {
    const io::Json& of_photo = Of(expected_["photos"], line["path"])["panoptic"][2];
    const io::Json& wanted = of_photo["segments"];
    EXPECT_EQ(line["task"], "panoptic");
    ASSERT_EQ(line["segments"].size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      const io::Json& segment = line["segments"][i];
      for (const char* key : {"id", "index"}) EXPECT_EQ(segment[key], wanted[i][key]) << key;
      if (of_photo["doubts"] == 0) {
        for (const char* key : {"area", "bbox"}) EXPECT_EQ(segment[key], wanted[i][key]) << key;
        EXPECT_EQ(segment["segmentation"]["counts"], wanted[i]["counts"]);
      }
      EXPECT_EQ(segment["segmentation"]["size"], io::Json({line["height"], line["width"]}));
      EXPECT_NEAR(segment["score"].get<double>(), wanted[i]["score"].get<double>(), 2e-5);
    }
  }
}

TEST_F(SegmentCommand, SemanticIsTheDefaultOfAModelOfSquares) {
  const CommandOutput said = Qkv("segment --json -m " + Semantic() + " " + Photos());
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const io::Json photos = io::ReadJson(Semantic() + "/expected.json")["photos"];
  for (const io::Json& line : JsonLines(said.out)) {
    EXPECT_EQ(line["task"], "semantic");
    EXPECT_FALSE(line["segments"][0].contains("score"));
    EXPECT_EQ(line["segments"].size(), Of(photos, line["path"])["segments"].size());
  }
  const CommandOutput panoptic = Qkv("segment --task panoptic -m " + Semantic() + " " + Photos());
  EXPECT_EQ(panoptic.exit_code, 1);
  EXPECT_TRUE(Contains(panoptic.err, "--task semantic only")) << panoptic.err;
  const CommandOutput threshold = Qkv("segment --threshold 0.5 -m " + Semantic() + " " + Photos());
  EXPECT_TRUE(Contains(threshold.err, "every pixel its best class")) << threshold.err;
}

TEST_F(SegmentCommand, TextNamesTheSegments) {
  const CommandOutput said = Qkv("segment --task instance --threshold 0.3 -m " + Model() + " " + Photos() + "/12.png");
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(Contains(said.out, "12.png\n")) << said.out;
  EXPECT_TRUE(Contains(said.out, "% of the photo  mask")) << said.out;
  const CommandOutput none = Qkv("segment --threshold 1 -m " + Model() + " " + Photos() + "/12.png");
  EXPECT_TRUE(Contains(none.out, "no segment")) << none.out;
}

TEST_F(SegmentCommand, PicturesAndMapsHaveTheSizeOfThePhoto) {
  const std::string out = (folder_ / "masks/").string(), ids = (folder_ / "ids/").string();
  const std::string settings = "segment --threshold 0.3 --overlap 0.2 -m " + Model();
  const CommandOutput said = Qkv(settings + " -o " + out + " --ids " + ids + " " + Photos());
  ASSERT_EQ(said.exit_code, 0) << said.err;
  for (const io::Json& photo : expected_["photos"]) {
    for (const std::string& folder : {out, ids}) {
      const image::Image picture = image::DecodeFile(folder + photo["photo"].get<std::string>());
      EXPECT_EQ(picture.height(), photo["height"].get<int64_t>());
      EXPECT_EQ(picture.width(), photo["width"].get<int64_t>());
      EXPECT_EQ(picture.channels(), 3);
    }
  }
  const CommandOutput same = Qkv(settings + " -o " + out + " --ids " + out + " " + Photos());
  EXPECT_EQ(same.exit_code, 1) << "pictures and maps in the same files";
  const CommandOutput over = Qkv(settings + " --ids " + Photos() + "/12.png " + Photos() + "/12.png");
  EXPECT_EQ(over.exit_code, 1) << "a map over its photo";
  const CommandOutput jpeg = Qkv(settings + " --ids x.jpg " + Photos() + "/7.png");
  EXPECT_TRUE(Contains(jpeg.err, "--ids is a .png")) << jpeg.err;
}

TEST_F(SegmentCommand, CocoHasItsPanopticFormatAndItsListOfInstances) {
  const std::string file = (folder_ / "results.json").string(), ids = (folder_ / "ids/").string();
  const std::string photos = " -m " + Model() + " " + Photos();
  const CommandOutput without = Qkv("segment --coco " + file + photos);
  EXPECT_EQ(without.exit_code, 1);
  EXPECT_TRUE(Contains(without.err, "--ids")) << without.err;
  ASSERT_EQ(Qkv("segment --threshold 0.3 --overlap 0.2 --coco " + file + " --ids " + ids + photos).exit_code, 0);
  const io::Json panoptic = io::ReadJson(file);
  EXPECT_EQ(panoptic["categories"][1], io::Json({{"id", 1}, {"name", "cat"}}));
  ASSERT_EQ(panoptic["annotations"].size(), expected_["photos"].size());
  for (const io::Json& annotation : panoptic["annotations"]) {
    EXPECT_TRUE(fs::exists(ids + annotation["file_name"].get<std::string>()));
    EXPECT_EQ(std::to_string(annotation["image_id"].get<int64_t>()) + ".png", annotation["file_name"]);
    for (const io::Json& segment : annotation["segments_info"]) EXPECT_GT(segment["area"], 0);
  }
  ASSERT_EQ(Qkv("segment --task instance --threshold 0.3 --coco " + file + photos).exit_code, 0);
  size_t instances = 0;
  for (const io::Json& photo : expected_["photos"]) instances += photo["instance"][2]["segments"].size();
  const io::Json list = io::ReadJson(file);
  EXPECT_EQ(list.size(), instances);
  EXPECT_TRUE(list[0]["segmentation"]["counts"].is_string());
}

TEST_F(SegmentCommand, OtherModelsAreRefusedWithAdvice) {
  const CommandOutput classifier = Qkv("segment -m " + Golden("hf_vit") + " " + Photos());
  EXPECT_EQ(classifier.exit_code, 1);
  EXPECT_TRUE(Contains(classifier.err, "qkv classify")) << classifier.err;
  const CommandOutput detector = Qkv("segment -m " + Golden("detector") + " " + Photos());
  EXPECT_TRUE(Contains(detector.err, "qkv detect")) << detector.err;
  const CommandOutput built_in = Qkv("segment " + Photos());
  EXPECT_TRUE(Contains(built_in.err, "give a model of masks")) << built_in.err;
  for (const char* command : {"classify", "detect", "evaluate"}) {
    const CommandOutput said = Qkv(std::string(command) + " -m " + Model() + " " + Photos());
    EXPECT_EQ(said.exit_code, 1);
    EXPECT_TRUE(Contains(said.err, "qkv segment")) << command << said.err;
  }
}

TEST_F(SegmentCommand, AnUnreadablePhotoIsNamed) {
  fs::copy(Photos(), folder_ / "photos");
  WriteFile(folder_ / "photos/7.png", "no photo");
  const CommandOutput said = Qkv("segment --json -m " + Model() + " " + (folder_ / "photos").string());
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_TRUE(Contains(said.err, "7.png")) << said.err;
  EXPECT_EQ(JsonLines(said.out).size(), expected_["photos"].size() - 1);
}

TEST_F(SegmentCommand, RunAndVerifyHaveTheOutputsOfTheOriginal) {
  for (const char* name : {"hf_eomt", "hf_eomt_swiglu", "hf_eomt_semantic", "hf_eomt_dinov3", "hf_eomt_dinov3_gated"}) {
    const CommandOutput said = Qkv("verify -m " + Golden(name) + " " + Golden(name) + "/expected.safetensors");
    EXPECT_EQ(said.exit_code, 0) << name << said.out << said.err;
    EXPECT_TRUE(Contains(said.out, "masks_queries_logits")) << said.out;
  }
  const CommandOutput info = Qkv("info -m " + Model());
  EXPECT_TRUE(Contains(info.out, "12 query tokens in the last 2 blocks")) << info.out;
}

TEST_F(SegmentCommand, AttendShowsTheTokenOfAMask) {
  const CommandOutput said = Qkv("attend -m " + Model() + " --query mask3 " + Photos() + "/12.png");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(JsonLines(said.out)[0]["query"], 8);  // behind a class token and four registers
  const CommandOutput none = Qkv("attend -m " + Model() + " --query mask12 " + Photos() + "/12.png");
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_TRUE(Contains(none.err, "mask0 … mask11")) << none.err;
  const CommandOutput rollout = Qkv("attend -m " + Model() + " --rollout --query mask3 " + Photos() + "/12.png");
  EXPECT_EQ(rollout.exit_code, 0) << rollout.err;
}

TEST_F(SegmentCommand, TheCacheGivesTheSame) {
  const std::string arguments = "segment --json -m " + Model() + " " + Photos();
  const std::string before = "QKV_CACHE=" + (folder_ / "cache").string();
  const CommandOutput plain = Qkv(arguments), first = Qkv(arguments, before), again = Qkv(arguments, before);
  EXPECT_EQ(plain.out, first.out);
  EXPECT_EQ(plain.out, again.out);
  EXPECT_EQ(again.exit_code, 0) << again.err;
}

}  // namespace
}  // namespace qkv
