// Scores are compared with those of pycocotools (coco_golden.py), without a tolerance.
#include "qkv/app/detection/coco_evaluation.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/core/work.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv::app {
namespace {

// Of the golden scores alone: counts are not pycocotools'.
io::Json OnlyKeys(const io::Json& json, const io::Json& golden) {
  io::Json part = io::Json::object();
  for (const auto& [key, value] : golden.items()) part[key] = json.at(key);
  return part;
}

class CocoGolden : public testing::TestWithParam<const char*> {};

TEST_P(CocoGolden, IsEqual) {
  const std::string base = (SourceFolder() / "tests/app/golden/coco" / GetParam()).string();
  const CocoDataset data = ReadCoco(base + ".annotations.json");
  const std::vector<CocoDetection> detections = ReadCocoDetections(base + ".results.json");
  const io::Json golden = io::ReadJson(base + ".scores.json");
  io::Json scores = OnlyKeys(ToJson(EvaluateCoco(data, detections)), golden);
  for (size_t i = 0; i < golden["categories"].size(); ++i) {
    scores["categories"][i] = OnlyKeys(scores["categories"][i], golden["categories"][i]);
  }
  EXPECT_EQ(scores, golden);
}

INSTANTIATE_TEST_SUITE_P(Coco, CocoGolden,
                         testing::Values("mixed", "ties", "many", "id_zero", "all_crowds", "no_objects", "no_results"),
                         [](const auto& test) { return std::string(test.param); });

// Images 1 … n of one object each, of `side`² pixels.
CocoDataset Squares(int64_t images, double side) {
  CocoDataset data;
  data.categories.push_back({.id = 1, .name = "square"});
  for (int64_t i = 1; i <= images; ++i) {
    CocoImage& image = data.images.emplace_back();
    image.id = i;
    data.annotations.push_back({i, i, 1, {0, 0, side, side}, side * side});
  }
  return data;
}

std::vector<CocoDetection> Perfect(const CocoDataset& data) {
  std::vector<CocoDetection> detections;
  for (const CocoAnnotation& annotation : data.annotations) {
    detections.push_back({annotation.image_id, annotation.category_id, annotation.box, 0.5});
  }
  return detections;
}

TEST(CocoEvaluation, APerfectDetectorHasOne) {
  const CocoDataset data = Squares(10, 50);
  const CocoEvaluation evaluation = EvaluateCoco(data, Perfect(data));
  EXPECT_NEAR(evaluation.scores.ap, 1, 1e-12);
  EXPECT_NEAR(evaluation.scores.ap_medium, 1, 1e-12);
  EXPECT_EQ(evaluation.scores.ap_small, -1);
  EXPECT_EQ(evaluation.scores.ap_large, -1);
  EXPECT_EQ(evaluation.scores.ar1, 1);
  EXPECT_EQ(evaluation.scores.ar_large, -1);
  EXPECT_EQ(evaluation.images, 10);
  EXPECT_EQ(evaluation.detections, 10);
  ASSERT_EQ(evaluation.categories.size(), 1u);
  EXPECT_EQ(evaluation.categories[0].annotations, 10);
  EXPECT_EQ(evaluation.categories[0].ar100, 1);
  const io::Json json = ToJson(evaluation);
  EXPECT_TRUE(json["ap_small"].is_null());
  EXPECT_EQ(json["categories"][0]["name"], "square");
}

TEST(CocoEvaluation, ThresholdsIncludeTheirBoundary) {
  const CocoDataset data = Squares(1, 60);
  // Half of the object: an overlap of exactly 0.5, and three quarters.
  const CocoDetection half = {1, 1, {0, 0, 60, 30}, 1}, less = {1, 1, {0, 0, 60, 29.999}, 1};
  const CocoDetection more = {1, 1, {0, 0, 60, 45}, 1};
  EXPECT_EQ(EvaluateCoco(data, {&half, 1}).scores.ar100, 0.1);
  EXPECT_EQ(EvaluateCoco(data, {&less, 1}).scores.ar100, 0);
  EXPECT_EQ(EvaluateCoco(data, {&more, 1}).scores.ar100, 0.6);
}

TEST(CocoEvaluation, OnlyAHundredDetectionsCount) {
  const CocoDataset data = Squares(1, 60);
  std::vector<CocoDetection> detections(100, {1, 1, {300, 300, 9, 9}, 0.9});
  detections.push_back({1, 1, {0, 0, 60, 60}, 0.8});
  EXPECT_EQ(EvaluateCoco(data, detections).scores.ar100, 0);
  detections.erase(detections.begin());
  EXPECT_EQ(EvaluateCoco(data, detections).scores.ar100, 1);
  EXPECT_EQ(EvaluateCoco(data, detections).scores.ar10, 0);
}

TEST(CocoEvaluation, DoesNotDependOnThreads) {
  const std::string base = (SourceFolder() / "tests/app/golden/coco/mixed").string();
  const CocoDataset data = ReadCoco(base + ".annotations.json");
  const std::vector<CocoDetection> detections = ReadCocoDetections(base + ".results.json");
  const int threads = NumThreads();
  SetNumThreads(1);
  const io::Json one = ToJson(EvaluateCoco(data, detections));
  SetNumThreads(3);
  EXPECT_EQ(ToJson(EvaluateCoco(data, detections)), one);
  SetNumThreads(threads);
}

TEST(CocoEvaluation, UnknownIdsAreCountedOrRefused) {
  CocoDataset data = Squares(2, 60);
  data.annotations[1].image_id = 77;
  std::vector<CocoDetection> detections = {{1, 1, {0, 0, 60, 60}, 1}, {1, 5, {0, 0, 60, 60}, 1}};
  const CocoEvaluation evaluation = EvaluateCoco(data, detections);
  EXPECT_EQ(evaluation.unused_annotations, 1);
  EXPECT_EQ(evaluation.unused_detections, 1);
  EXPECT_EQ(evaluation.annotations, 1);
  detections[0].image_id = 78;
  EXPECT_NE(ErrorMessage([&] { EvaluateCoco(data, detections); }).find("image 78"), std::string::npos);
  detections[0] = {1, 1, {}, std::numeric_limits<double>::quiet_NaN()};
  EXPECT_NE(ErrorMessage([&] { EvaluateCoco(data, detections); }).find("NaN"), std::string::npos);
}

// A file names any number of categories; those without objects cost a step or two each.
TEST(CocoEvaluation, WorkIsLinearInTheCategories) {
  const auto steps = [](int64_t categories) {
    CocoDataset data = Squares(10, 50);
    for (int64_t i = 0; i < categories; ++i) data.categories.push_back({.id = i + 2, .name = std::to_string(i)});
    const int64_t before = StepsDone();
    const CocoEvaluation evaluation = EvaluateCoco(data, Perfect(data));
    EXPECT_NEAR(evaluation.scores.ap, 1, 1e-12);
    return StepsDone() - before;
  };
  const int64_t few = steps(0);
  EXPECT_GT(few, 0);
  EXPECT_LT(steps(10'000) - few, 20 * 10'000);
}

TEST(CocoEvaluation, MemoryIsLimited) {
  CocoDataset data = Squares(2000, 60);
  for (int64_t i = 0; i < 2000; ++i) {
    data.annotations[static_cast<size_t>(i)].category_id = i;
    data.categories.push_back({.id = i + 2, .name = std::to_string(i)});
  }
  const int64_t limit = MemoryLimit();
  SetMemoryLimit(10 << 20);
  const std::string message = ErrorMessage([&] { EvaluateCoco(data, {}); });
  SetMemoryLimit(limit);
  EXPECT_NE(message.find("categories"), message.npos) << message;
}

}  // namespace
}  // namespace qkv::app
