// How well a detector finds the annotated objects of COCO's data sets.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/app/detection/coco.h"
#include "qkv/app/detection/coco_evaluation.h"
#include "qkv/app/detection/detect.h"

namespace qkv::app {

/// Annotations and their photos.
struct AnnotatedPhotos {
  /// data: an annotation file, or a folder with one (FindCocoAnnotations, which has `split`). Throws Error if there is
  /// none, if the photos are not found, and as ReadCoco.
  AnnotatedPhotos(const std::filesystem::path& data, std::string_view split);

  std::filesystem::path annotations;
  CocoDataset dataset;
  ImageList images;  // in the order of dataset.images
};

struct DetectionEvaluation {
  std::string data;  // the annotation file
  CocoEvaluation evaluation;
  std::vector<CocoDetection> detections;
  int unreadable = 0;  // photos left out; their objects count as not found
  // With objects, but the model has no class of that name: they count as not found.
  std::vector<std::string> unknown_categories;
  int64_t unused_classes = 0;  // of the model, that no category is named after; "N/A" does not count
};

/// Detects the objects of all photos, with any score as in COCO's challenge, and compares them with the annotations.
/// pipeline.note names categories that the model has no class for. Throws Error if the model has no heads for
/// detection, or no class of the data.
DetectionEvaluation EvaluateDetector(const model::Model& model, const AnnotatedPhotos& data,
                                     const PipelineOptions& pipeline);

/// ToJson(CocoEvaluation), "unreadable", "unknown_categories" and "unused_classes".
io::Json ToJson(const DetectionEvaluation& evaluation);

}  // namespace qkv::app
