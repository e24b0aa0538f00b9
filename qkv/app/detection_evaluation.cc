#include "qkv/app/detection_evaluation.h"

#include "qkv/app/coco_files.h"

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

DetectionEvaluation EvaluateDetector(const model::Model& model, const AnnotatedPhotos& data,
                                     const PipelineOptions& pipeline) {
  Require(model.config().detection_classes > 0,
          "evaluate: the model ({}) has no heads for detection, which COCO annotations need",
          model.config().architecture);
  const std::vector<std::optional<int64_t>> categories = MatchCocoCategories(model.labels(), data.dataset);
  DetectionEvaluation result{.data = data.annotations.string()};
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
  return json;
}

}  // namespace qkv::app
