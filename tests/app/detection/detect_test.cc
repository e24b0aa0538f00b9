// Detection against transformers' processor, model and post-processing (tests/golden/detector.py), and against
// pycocotools.
#include "qkv/app/detection/detect.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "qkv/app/detection/detection_evaluation.h"
#include "qkv/core/file.h"
#include "qkv/image/preprocess.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;

class Detection : public testing::Test {
 protected:
  const fs::path folder_ = GoldenFolder("detector"), photos_ = folder_ / "photos";
  const io::Json expected_ = io::ReadJson(folder_ / "expected.json");
  const model::Model model_ = model::Model::Load(folder_);
};

// Scores and boxes of float32 models of three blocks: some ten roundings of 6e-8, amplified by the layers.
constexpr double kScoreError = 2e-5;

TEST_F(Detection, AgreesWithTransformers) {
  Detector detector(model_, expected_["threshold"]);
  size_t objects = 0;
  for (const io::Json& wanted : expected_["photos"]) {
    const std::string name = wanted["photo"];
    SCOPED_TRACE(name);
    const PhotoObjects found = detector.Detect(photos_ / name, {});
    EXPECT_EQ(found.photo.height(), wanted["height"]);
    EXPECT_EQ(found.photo.width(), wanted["width"]);
    const Shape pixels = model_.PixelsShape(found.photo);
    EXPECT_EQ(pixels, Shape({3, wanted["pixels"][0].get<int64_t>(), wanted["pixels"][1].get<int64_t>()}));
    io::Json sorted = wanted["objects"];
    std::stable_sort(sorted.begin(), sorted.end(), [](const io::Json& a, const io::Json& b) { return a[0] > b[0]; });
    ASSERT_EQ(found.objects.size(), sorted.size());
    objects += sorted.size();
    const double side = static_cast<double>(std::max(found.photo.height(), found.photo.width()));
    for (size_t i = 0; i < sorted.size(); ++i) {
      const DetectedObject& object = found.objects[i];
      EXPECT_NEAR(object.score, sorted[i][0].get<double>(), kScoreError);
      EXPECT_EQ(object.index, sorted[i][1].get<int64_t>());
      EXPECT_EQ(object.label, model_.labels()[static_cast<size_t>(object.index)]);
      const image::Rect& box = object.box;
      const double corners[] = {box.left, box.top, box.left + box.width, box.top + box.height};
      for (size_t c = 0; c < 4; ++c) EXPECT_NEAR(corners[c], sorted[i][2][c].get<double>(), kScoreError * side);
    }
  }
  EXPECT_GT(objects, 5u);
}

TEST_F(Detection, SizesAreThoseOfTheProcessor) {
  for (const io::Json& row : expected_["sizes"]) {
    const std::vector<int64_t> size = row;
    const image::Preprocess p{.resize = image::Preprocess::Resize::kEdges,
                              .resize_height = size[2],
                              .resize_width = size[3],
                              .resize_multiple = 16};
    if (size[4] == 0 || size[5] == 0) {
      EXPECT_NE(ErrorMessage([&] { image::OutputShape(p, size[0], size[1]); }), "") << row;
    } else {
      EXPECT_EQ(image::OutputShape(p, size[0], size[1]), Shape({3, size[4], size[5]})) << row;
    }
  }
}

TEST_F(Detection, ScoresAreThoseOfPycocotools) {
  const AnnotatedPhotos data(photos_, "");
  ASSERT_EQ(data.images.files.size(), expected_["photos"].size());
  const DetectionEvaluation evaluation = EvaluateDetector(model_, data, {});
  EXPECT_EQ(evaluation.unreadable, 0);
  const io::Json scores = ToJson(evaluation);
  for (const auto& [name, wanted] : expected_["scores"].items()) {
    if (wanted.get<double>() < 0) {
      EXPECT_TRUE(scores[name].is_null()) << name;
    } else {
      EXPECT_NEAR(scores[name].get<double>(), wanted.get<double>(), 1e-12) << name;
    }
  }
  // Objects of the class N/A, which the data set lacks, are left out.
  const auto tokens = static_cast<size_t>(model_.config().detection_tokens);
  EXPECT_LT(evaluation.detections.size(), tokens * data.images.files.size());
}

TEST_F(Detection, AnUnreadablePhotoCountsAsMissed) {
  const TemporaryFolder folder;
  fs::copy(photos_, folder.path());
  WriteFile(folder / "12.png", "no photo");
  std::string notes;
  const AnnotatedPhotos data(folder / "annotations.json", "");
  const DetectionEvaluation evaluation =
      EvaluateDetector(model_, data, {.note = [&](const std::string& note) { notes += note; }});
  EXPECT_EQ(evaluation.unreadable, 1);
  EXPECT_NE(notes.find("12.png"), std::string::npos) << notes;
  EXPECT_EQ(evaluation.evaluation.images, 5);
  EXPECT_LT(evaluation.evaluation.scores.ap, expected_["scores"]["ap"].get<double>());
}

TEST_F(Detection, RefusesWhatIsNoDetector) {
  const auto classifier = model::Model::Load(GoldenFolder("hf_vit"));
  EXPECT_NE(ErrorMessage([&] { Detector(classifier, 0.5); }).find("qkv classify"), std::string::npos);
  const auto encoder = model::Model::Load(GoldenFolder("hf_yolos_model"));
  EXPECT_NE(ErrorMessage([&] { Detector(encoder, 0.5); }).find("no heads"), std::string::npos);
  EXPECT_NE(ErrorMessage([&] { AnnotatedPhotos(GoldenFolder("hf_vit"), ""); }).find("annotations"), std::string::npos);
}

TEST_F(Detection, DrawsBoxesOnThePhoto) {
  const PhotoObjects found = Detector(model_, 0).Detect(photos_ / "12.png", {});
  const image::Image drawn = DrawObjects(found);
  EXPECT_EQ(drawn.pixels.shape(), Shape({60, 90, 3}));
  EXPECT_FALSE(std::equal(drawn.pixels.data(), drawn.pixels.data() + drawn.pixels.size(), found.photo.pixels.data()));
}

Tensor<float> Values(const Shape& shape, std::initializer_list<float> values) {
  Tensor<float> tensor(shape);
  std::ranges::copy(values, tensor.data());
  return tensor;
}

TEST(FindObjects, SortsByScoreAndKeepsTheOrderOfEqualOnes) {
  const Tensor<float> logits = Values({4, 3}, {5, 0, 0, 0, 9, 0, 5, 0, 0, 0, 0, 9});
  const Tensor<float> boxes = Values({4, 4}, {.5, .5, 1, 1, .25, .5, .5, .2, .5, .5, .1, .1, 0, 0, 0, 0});
  const std::vector<DetectedObject> objects = FindObjects(logits, boxes, 10, 100, 0.5, std::vector<std::string>{"a"});
  ASSERT_EQ(objects.size(), 3u);  // the last is no object
  EXPECT_EQ(objects[0].token, 1);
  EXPECT_EQ(objects[0].label, "");
  EXPECT_NEAR(objects[0].box.left, 0, 1e-4);
  EXPECT_NEAR(objects[0].box.top, 4, 1e-4);
  EXPECT_NEAR(objects[0].box.width, 50, 1e-4);
  EXPECT_NEAR(objects[0].box.height, 2, 1e-4);
  EXPECT_EQ(objects[1].token, 0);
  EXPECT_EQ(objects[2].token, 2);
  EXPECT_EQ(objects[1].label, "a");
  EXPECT_NE(ErrorMessage([&] { FindObjects(logits, logits, 1, 1, 0, {}); }), "");
}

TEST(CocoImageIds, AreTheNumbersInTheNamesOrThePlaces) {
  const std::vector<fs::path> numbers = {"a/000139.jpg", "b/7.png"}, same = {"a/7.jpg", "b/7.png"},
                              names = {"x.png", "2.png"};
  std::vector<std::string> notes;
  const Note note = [&](const std::string& text) { notes.push_back(text); };
  EXPECT_EQ(CocoImageIds(numbers, note), (std::vector<int64_t>{139, 7}));
  EXPECT_TRUE(notes.empty());
  EXPECT_EQ(CocoImageIds(same, note), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(CocoImageIds(names, note), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(CocoImageIds(std::vector<fs::path>{"-1.png"}, {}), (std::vector<int64_t>{1}));
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_NE(notes[0].find("7.png"), std::string::npos) << notes[0];
  EXPECT_NE(notes[1].find("x.png"), std::string::npos) << notes[1];
}

}  // namespace
}  // namespace qkv::app
