#include "qkv/app/detection/detection_evaluation.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>

#include "qkv/app/detection/coco_files.h"

namespace qkv::app {

AnnotatedPhotos::AnnotatedPhotos(const std::filesystem::path& data, std::string_view split) {
  const std::optional<std::filesystem::path> found = FindCocoAnnotations(data, split);
  Require(found.has_value(),
          "evaluate: {} has no COCO annotations (annotations/instances_NAME.json, annotations.json); a detector is "
          "evaluated on annotated boxes",
          data.native());
  annotations = *found;
  dataset = ReadCoco(annotations);
  Require(!dataset.images.empty(), "{}: no images", annotations.native());
  const std::filesystem::path folder = FindCocoImages(annotations, dataset);
  for (const CocoImage& image : dataset.images) images.files.push_back(CocoImagePath(folder, image));
}

namespace {

void CountUnmatched(const model::Model& model, const CocoDataset& dataset,
                    std::span<const std::optional<int64_t>> categories, DetectionEvaluation* result) {
  std::set<int64_t> with_objects, matched;
  for (const CocoAnnotation& annotation : dataset.annotations) with_objects.insert(annotation.category_id);
  for (size_t i = 0; i < categories.size(); ++i) {
    if (categories[i]) {
      matched.insert(*categories[i]);
    } else if (model.labels()[i] != "N/A") {  // numbers that COCO leaves out
      ++result->unused_classes;
    }
  }
  for (const CocoCategory& category : dataset.categories) {
    if (with_objects.contains(category.id) && !matched.contains(category.id)) {
      result->unknown_categories.push_back(category.name);
    }
  }
}

std::string DescribeUnmatched(const DetectionEvaluation& result) {
  constexpr size_t kShown = 10;
  const std::vector<std::string>& names = result.unknown_categories;
  std::string text = FormatShown(
      "{}: the model has no class for {} of its categories, whose AP counts as 0: ", result.data, names.size());
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    text += FormatShown("{}\"{}\"", i > 0 ? ", " : "", names[i]);
  }
  if (names.size() > kShown) text += ", …";
  return text + FormatShown("; {} classes of the model have no category; categories are matched by name",
                            result.unused_classes);
}

}  // namespace

DetectionEvaluation EvaluateDetector(const model::Model& model, const AnnotatedPhotos& data,
                                     const PipelineOptions& pipeline) {
  Require(model.config().heads() == model::HeadKind::kBoxes,
          "evaluate: the model ({}) has no heads for detection, which COCO annotations need",
          model.config().architecture);
  const std::vector<std::optional<int64_t>> categories = MatchCocoCategories(model.labels(), data.dataset);
  DetectionEvaluation result{.data = data.annotations.string()};
  CountUnmatched(model, data.dataset, categories, &result);
  if (!result.unknown_categories.empty()) Notify(pipeline.note, DescribeUnmatched(result));
  result.unreadable = DetectAll(
      model, data.images, {.threshold = 0, .pipeline = pipeline}, [&](size_t file, const PhotoObjects& photo) {
        for (const CocoDetection& detection : ToCoco(photo, data.dataset.images[file].id, categories)) {
          result.detections.push_back(detection);
        }
      });
  result.evaluation = EvaluateCoco(data.dataset, result.detections);
  return result;
}

io::Json ToJson(const DetectionEvaluation& evaluation) {
  io::Json json = ToJson(evaluation.evaluation);
  json["unreadable"] = evaluation.unreadable;
  json["unknown_categories"] = evaluation.unknown_categories;
  json["unused_classes"] = evaluation.unused_classes;
  return json;
}

}  // namespace qkv::app
