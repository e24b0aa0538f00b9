#include "qkv/app/detection/coco.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "qkv/app/detection/coco_files.h"
#include "qkv/core/file.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv::app {
namespace {

// With outlines, keypoints, floating-point ids, null, and an annotation without area and iscrowd.
constexpr const char* kData = R"({
  "info": {"year": 2017, "images": [1, {"id": 3}]}, "licenses": [{"id": 1, "name": 7}],
  "images": [{"id": 9, "file_name": "a.jpg", "width": 640, "height": 480, "date": "x", "license": null},
             {"file_name": "b/c.jpg", "id": 4, "width": null, "x": {"id": 5, "bbox": [1]}}],
  "annotations": [
    {"segmentation": [[1, 2, 3.5, 4, 5, 6]], "area": 12.5, "iscrowd": 0, "image_id": 9, "bbox": [1, 2.5, 3, 4],
     "category_id": 18, "id": 100, "width": 3.5, "attributes": {"id": "x", "area": []}, "name": "n"},
    {"segmentation": {"counts": [1, 2], "size": [480, 640]}, "iscrowd": true, "image_id": 4.0, "bbox": [0, 0, 2, 5],
     "category_id": 1, "id": 101, "score": null}],
  "categories": [{"supercategory": "person", "id": 1, "name": "person", "keypoints": ["nose"]},
                 {"id": 18, "name": "dog"}]})";

TEST(Coco, AnnotationsAreRead) {
  const CocoDataset data = ParseCoco(kData, "x");
  ASSERT_EQ(data.images.size(), 2u);
  EXPECT_EQ(data.images[0].id, 9);
  EXPECT_EQ(data.images[0].file_name, "a.jpg");
  EXPECT_EQ(data.images[0].width, 640);
  EXPECT_EQ(data.images[0].height, 480);
  EXPECT_EQ(data.images[1].id, 4);
  EXPECT_EQ(data.images[1].width, 0);
  ASSERT_EQ(data.categories.size(), 2u);
  EXPECT_EQ(data.categories[1].id, 18);
  EXPECT_EQ(data.categories[1].name, "dog");
  ASSERT_EQ(data.annotations.size(), 2u);
  const CocoAnnotation &dog = data.annotations[0], &crowd = data.annotations[1];
  EXPECT_EQ(dog.id, 100);
  EXPECT_EQ(dog.image_id, 9);
  EXPECT_EQ(dog.category_id, 18);
  EXPECT_EQ(dog.box.left, 1);
  EXPECT_EQ(dog.box.top, 2.5);
  EXPECT_EQ(dog.box.width, 3);
  EXPECT_EQ(dog.box.height, 4);
  EXPECT_EQ(dog.area, 12.5);
  EXPECT_FALSE(dog.crowd);
  EXPECT_EQ(crowd.image_id, 4);
  EXPECT_EQ(crowd.area, 10);
  EXPECT_TRUE(crowd.crowd);
}

// The data above with `from` replaced.
std::string Changed(const std::string& from, const std::string& to) {
  std::string text = kData;
  const size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

void ExpectRefusal(const std::string& text, const std::string& words) {
  const std::string message = ErrorMessage([&] { ParseCoco(text, "f.json"); });
  EXPECT_TRUE(message.starts_with("f.json: ")) << message;
  EXPECT_NE(message.find(words), message.npos) << message;
}

TEST(Coco, BadAnnotationsAreRefusedByPlace) {
  ExpectRefusal("", "not valid JSON");
  ExpectRefusal("[1", "expected an object");
  ExpectRefusal("3", "expected an object");
  ExpectRefusal("null", "expected an object");
  ExpectRefusal("{}", "no images");
  ExpectRefusal(R"({"images": 3})", "expected a list of images, got a number");
  ExpectRefusal(R"({"images": null})", "expected a list of images");
  ExpectRefusal(R"({"images": {"id": 3}})", "expected a list of images");
  ExpectRefusal(R"({"images": [3]})", "images[0]: expected an object, got a number");
  ExpectRefusal(R"({"images": [[]]})", "images[0]: expected an object, got a list");
  ExpectRefusal(R"({"images": [{"id": 3}]})", "images[0]: no file_name");
  ExpectRefusal(R"({"images": [{"id": 3, "file_name": ""}]})", "no file_name");
  ExpectRefusal(kData + std::string("x"), "not valid JSON");
  ExpectRefusal(Changed("\"id\": 9", "\"id\": \"nine\""), "images[0]: id: expected an integer, got a string");
  ExpectRefusal(Changed("\"id\": 9", "\"id\": 9.5"), "images[0]: id: expected an integer, got 9.5");
  ExpectRefusal(Changed("\"id\": 9", "\"id\": 18446744073709551615"), "images[0]: id: expected an integer");
  ExpectRefusal(Changed("\"id\": 9", "\"id\": 1e400"), "not valid JSON");
  ExpectRefusal(Changed("\"id\": 9,", ""), "images[0]: no id");
  ExpectRefusal(Changed("\"id\": 9", "\"id\": 4"), "two images have id 4");
  ExpectRefusal(Changed("\"id\": 101", "\"id\": 100"), "two annotations have id 100");
  ExpectRefusal(Changed("\"id\": 18, \"name\"", "\"id\": 1, \"name\""), "two categories have id 1");
  ExpectRefusal(Changed("\"dog\"", "[]"), "categories[1]: name: expected a string, got a list");
  ExpectRefusal(Changed("\"width\": 640", "\"width\": -1"), "images[0]: expected a width of 0 or more, got -1");
  ExpectRefusal(Changed("\"image_id\": 9,", ""), "annotations[0]: no image_id");
  ExpectRefusal(Changed("\"category_id\": 18", "\"c\": 18"), "annotations[0]: no category_id");
  ExpectRefusal(Changed("12.5", "\"12\""), "annotations[0]: area: expected a number, got a string");
  ExpectRefusal(Changed("[1, 2.5, 3, 4]", "[1, 2.5, 3]"), "annotations[0]: bbox: expected 4 numbers");
  ExpectRefusal(Changed("[1, 2.5, 3, 4]", "[1, 2, 3, 4, 5, 6, 7]"), "got more");
  ExpectRefusal(Changed("[1, 2.5, 3, 4]", "[1, 2.5, -3, 4]"), "width and a height of 0 or more, got -3 and 4");
  ExpectRefusal(Changed("[1, 2.5, 3, 4]", "[1, [2], 3, 4]"), "annotations[0]: bbox: expected four numbers");
  ExpectRefusal(Changed("[1, 2.5, 3, 4]", "[1, null, 3, 4]"), "bbox: expected four numbers, got null");
  ExpectRefusal(Changed("[1, 2.5, 3, 4]", "{\"x\": 1}"), "bbox: expected four numbers, got an object");
  ExpectRefusal(Changed("[1, 2.5, 3, 4]", "null"), "annotations[0]: no bbox");
  ExpectRefusal(Changed("[[1, 2, 3.5", std::string(100, '[')), "nested");
  ExpectRefusal(std::string("{\"images\": [{\"id\": 1, \"file_name\": \"a\0b\"}]}", 44), "zero byte");
}

TEST(Coco, OutlinesTakeNoMemory) {
  // Two million numbers of an outline.
  std::string outline = "[[1";
  for (int i = 0; i < 2'000'000; ++i) outline += ",2";
  const CocoDataset data = ParseCoco(Changed("[[1, 2, 3.5, 4, 5, 6]]", outline + "]]"), "x");
  EXPECT_EQ(data.annotations.size(), 2u);
}

TEST(Coco, DetectionsAreReadAsWritten) {
  const TemporaryFolder folder;
  const std::vector<CocoDetection> written = {
      {.image_id = 9, .category_id = 18, .box = {0.1, -3e-7, 1.0 / 3, 640}, .score = 0.93f},
      {.image_id = -4, .category_id = int64_t{1} << 60, .box = {1, 2, 0, 5}, .score = -0.0},
  };
  WriteCocoDetections(folder / "r.json", written);
  const std::vector<CocoDetection> read = ReadCocoDetections(folder / "r.json");
  ASSERT_EQ(read.size(), written.size());
  for (size_t i = 0; i < read.size(); ++i) EXPECT_EQ(ToJson(read[i]), ToJson(written[i]));
  EXPECT_EQ(read[0].box.top, written[0].box.top);
  EXPECT_EQ(read[0].box.left, written[0].box.left);
  EXPECT_EQ(ToJson(read[1]).dump(),
            R"({"bbox":[2.0,1.0,5.0,0.0],"category_id":1152921504606846976,"image_id":-4,"score":-0.0})");

  WriteCocoDetections(folder / "r.json", {});
  EXPECT_TRUE(ReadCocoDetections(folder / "r.json").empty());
  const CocoDetection bad = {7, 1, {}, std::numeric_limits<double>::quiet_NaN()};
  const std::string message = ErrorMessage([&] { WriteCocoDetections(folder / "r.json", {&bad, 1}); });
  EXPECT_NE(message.find("image 7 is not finite"), message.npos) << message;
  EXPECT_TRUE(ReadCocoDetections(folder / "r.json").empty());
}

TEST(Coco, BadDetectionsAreRefusedByPlace) {
  const auto expect = [](const std::string& text, const std::string& words) {
    const std::string message = ErrorMessage([&] { ParseCocoDetections(text, "r.json"); });
    EXPECT_NE(message.find(words), message.npos) << message;
  };
  const std::string good = R"({"image_id": 1, "category_id": 2, "bbox": [1, 2, 3, 4], "score": 1})";
  EXPECT_EQ(ParseCocoDetections("[" + good + "]", "r.json").size(), 1u);
  expect(kData, "expected a list of results");
  expect("[" + good, "not valid JSON");
  expect("[" + good + ", 3]", "record 1: expected an object, got a number");
  expect("[[]]", "record 0: expected an object");
  expect(R"([{"image_id": 1, "category_id": 2, "bbox": [1, 2, 3, 4]}])", "record 0: no score");
  expect(R"([{"image_id": 1, "category_id": 2, "score": 1}])", "no bbox");
  expect(R"([{"image_id": 1, "score": 1, "bbox": [1, 2, 3, 4]}])", "no category_id");
  expect(R"([{"image_id": 1, "category_id": 2, "bbox": [1, 2, 3, 4], "score": "1"}])", "score: expected a number");
}

TEST(Coco, LabelsMatchCategoriesByName) {
  const CocoDataset data = ParseCoco(kData, "x");
  const std::vector<std::string> labels = {"N/A", "Dog ", "cat", "person"};
  const std::vector<std::optional<int64_t>> matches = MatchCocoCategories(labels, data);
  EXPECT_EQ(matches, (std::vector<std::optional<int64_t>>{std::nullopt, 18, std::nullopt, 1}));
  const std::vector<std::string> strange = {"LABEL_0"};
  EXPECT_NE(ErrorMessage([&] { MatchCocoCategories(strange, data); }).find("LABEL_0"), std::string::npos);
  EXPECT_NE(ErrorMessage([&] { MatchCocoCategories({}, data); }), "");
  const CocoDataset twins = ParseCoco(Changed("\"dog\"", "\"Person\""), "x");
  EXPECT_NE(ErrorMessage([&] { MatchCocoCategories(labels, twins); }).find("Person"), std::string::npos);
}

TEST(CocoFiles, AreFoundWhereDataSetsHaveThem) {
  namespace fs = std::filesystem;
  struct Layout {
    const char *annotations, *images;
  };
  const CocoDataset data = ParseCoco(kData, "x");
  for (const Layout& layout : {Layout{"annotations/instances_val2017.json", "val2017"},
                               {"annotations/instances_val2017.json", "images/val2017"},
                               {"annotations/my.json", "images"},
                               {"annotations/instances_val2017.json", "."},
                               {"valid/_annotations.coco.json", "valid"},
                               {"annotations.json", "images"},
                               {"instances_default.json", "default"}}) {
    const TemporaryFolder folder;
    const fs::path annotations = folder / layout.annotations, images = folder / layout.images;
    fs::create_directories(annotations.parent_path());
    fs::create_directories(images);
    WriteFile(annotations, kData);
    WriteFile(images / "a.jpg", "");
    const auto found = FindCocoAnnotations(folder.path(), "");
    ASSERT_TRUE(found.has_value()) << layout.annotations;
    EXPECT_EQ(*found, annotations);
    EXPECT_TRUE(fs::equivalent(FindCocoImages(*found, data), images)) << layout.annotations;
    EXPECT_EQ(FindCocoAnnotations(annotations, "x"), annotations);
  }
}

TEST(CocoFiles, ASplitChoosesAmongSeveral) {
  const TemporaryFolder folder;
  EXPECT_EQ(FindCocoAnnotations(folder.path(), ""), std::nullopt);
  EXPECT_EQ(FindCocoAnnotations(folder / "none", ""), std::nullopt);
  std::filesystem::create_directories(folder / "annotations");
  for (const char* name : {"instances_train2017.json", "instances_val2017.json", "captions_val2017.json"}) {
    WriteFile(folder / "annotations" / name, kData);
  }
  EXPECT_EQ(FindCocoAnnotations(folder.path(), "")->filename(), "instances_val2017.json");
  EXPECT_EQ(FindCocoAnnotations(folder.path(), "train")->filename(), "instances_train2017.json");
  const std::string none = ErrorMessage([&] { FindCocoAnnotations(folder.path(), "test"); });
  EXPECT_NE(none.find("instances_train2017.json"), none.npos) << none;
  WriteFile(folder / "annotations" / "instances_val2014.json", kData);
  EXPECT_NE(ErrorMessage([&] { FindCocoAnnotations(folder.path(), ""); }).find("several"), std::string::npos);
  const std::string images =
      ErrorMessage([&] { FindCocoImages(folder / "annotations" / "instances_val2017.json", ParseCoco(kData, "x")); });
  EXPECT_NE(images.find("a.jpg"), images.npos) << images;
  EXPECT_NE(images.find("val2017"), images.npos) << images;
}

TEST(CocoFiles, NamesStayInTheFolder) {
  const auto path = [](const std::string& name) {
    CocoImage image;
    image.file_name = name;
    return CocoImagePath("f", image);
  };
  EXPECT_EQ(path("a/b.jpg"), "f/a/b.jpg");
  EXPECT_EQ(path("./a/../b.jpg"), "f/b.jpg");
  for (const char* name : {"", ".", "..", "/etc/passwd", "../a.jpg", "a/../../b.jpg", "a/"}) {
    EXPECT_NE(ErrorMessage([&] { path(name); }), "") << name;
  }
}

}  // namespace
}  // namespace qkv::app
